"""`understudy grant`: compilation of an intent to RBAC manifests."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from proxy.analysis.cluster import Cluster
from proxy.analysis.grant_check import (
    CaseResult,
    cluster_catalog,
    cluster_warnings,
    verify_intents,
)
from proxy.analysis.output import (
    document_text,
    escape_control_characters,
    manifests_text,
    table_lines,
)
from proxy.cli.options.cluster import add_cluster_options, open_selected_cluster
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.impersonation.checks import access_check_for
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.rbac.intent.model import Intent, union_warnings
from proxy.core.rbac.intent.parser import IntentError, read_intent
from proxy.core.rbac.resources import BUILT_IN, ResourceCatalog

_DESCRIPTION = """\
Compile an intent (impersonators, targets, actions, namespaces) to the roles and bindings that allow
it and no more: user rules in authentication.k8s.io, actions in their namespaces, streams by get and
create, lists with watches, and the discovery that kubectl needs. If the rules allow more than the
intent, that is printed as a warning.
"""
_EPILOG = """\
an intent:
  name: support-team
  mode: user-info                        # or serviceaccount, arbitrary-node, associated-node
  impersonators:
  - serviceAccount: tools/support        # or user: NAME, or group: NAME
  targets:
  - user: alice                          # '*' is every user
    groups: [developers]
  actions:
  - verbs: [get, list]
    resources: [pods, pods/log, deployments.apps]
  - verbs: [create]
    resources: [pods/exec]
    names: [web-0]
  namespaces: [shop]                     # or '*'

  understudy grant intent.yaml | kubectl apply -f -
  understudy grant intent.yaml --verify

exit codes: 0 printed or verified, 1 error, or verification failed, 2 invalid options
"""
_RESULTS = {True: "allowed", False: "denied"}


class GrantError(OperatorError):
    """The intent file cannot be read."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "grant",
        help="compile an intent to RBAC",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "intent", type=Path, metavar="FILE", help="file with the intent; - is standard input"
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="also query the cluster: its resources, existing permissions of the impersonators, "
        "and whether the targets themselves may perform the actions",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="print no RBAC, but verify the intent by access reviews: its actions must be allowed, "
        "and similar actions outside of it denied",
    )
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")
    add_cluster_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Parse all intents, then print or verify them."""
    documents = _documents(options.intent)
    if options.cluster or options.verify:
        return asyncio.run(_with_cluster(options, documents))
    return _print(options, _intents(documents, BUILT_IN), [])


async def _with_cluster(options: argparse.Namespace, documents: Sequence[object]) -> int:
    async with open_selected_cluster(options) as cluster:
        intents = _intents(documents, await cluster_catalog(cluster))
        if options.verify:
            return await _verify(cluster, intents)
        warnings = await cluster_warnings(cluster, intents)
    return _print(options, intents, warnings)


def _print(options: argparse.Namespace, intents: Sequence[Intent], warnings: Sequence[str]) -> int:
    objects = [manifest for intent in intents for manifest in intent.objects()]
    if options.output == "json":
        sys.stdout.write(
            document_text({"apiVersion": "v1", "kind": "List", "items": objects}, "json")
        )
    else:
        sys.stdout.write(manifests_text(objects))
    for warning in (*union_warnings(intents), *warnings):
        print(f"understudy: warning: {escape_control_characters(warning)}", file=sys.stderr)
    return 0


async def _verify(cluster: Cluster, intents: Sequence[Intent]) -> int:
    outcomes = await verify_intents(cluster, intents)
    wrong = [outcome for outcome in outcomes if not outcome.is_as_expected]
    if wrong:
        header = ("IMPERSONATOR", "AS", "ACTION", "WHAT", "EXPECTED", "FOUND")
        print("\n".join(table_lines(header, map(_row, wrong))))
    expected = sum(outcome.expected.is_allowed for outcome in outcomes)
    print(
        f"{expected} expected to be allowed, {len(outcomes) - expected} to be denied: "
        f"{len(outcomes) - len(wrong)} as expected, {len(wrong)} not"
    )
    return 1 if wrong else 0


def _row(outcome: CaseResult) -> tuple[str, ...]:
    trial = outcome.expected
    action = access_check_for(trial.request_info, trial.request_info.verb, user=trial.wanted_user)
    return (
        trial.caller.user.name,
        trial.wanted_user.name,
        check_summary(action),
        trial.description,
        _RESULTS[trial.is_allowed],
        _RESULTS[outcome.is_allowed],
    )


def _documents(file: Path) -> list[object]:
    try:
        text = sys.stdin.read() if file == Path("-") else file.read_text("utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise GrantError(f"cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GrantError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if not documents:
        raise GrantError(f"{file} contains no intent")
    return documents


def _intents(documents: Sequence[object], catalog: ResourceCatalog) -> list[Intent]:
    intents: list[Intent] = []
    problems: list[str] = []
    for number, document in enumerate(documents, 1):
        where = f"document {number}: " if len(documents) > 1 else ""
        try:
            intents.append(read_intent(document, catalog))
        except IntentError as error:
            problems += [f"{where}{line}" for line in error.lines]
    names = [intent.name for intent in intents]
    problems += [f"two intents have the name {name}" for name in {*names} if names.count(name) > 1]
    if problems:
        raise IntentError(problems)
    return intents
