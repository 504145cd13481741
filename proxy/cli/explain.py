"""`understudy explain`: why a request is allowed or denied, and what to grant."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from proxy.analysis.cluster import Cluster
from proxy.analysis.explain import ExplainResult, explain_request
from proxy.analysis.explain_output import render_document, render_text
from proxy.analysis.output import colors_for, document_text, manifests_text
from proxy.cli.audit_log_reader import find_event, read_event
from proxy.cli.options.cluster import add_cluster_options, add_output_option, chosen_cluster
from proxy.cli.options.request import (
    RequestOptionError,
    UsageError,
    add_request_options,
    check_usage,
    decision_settings,
    described_request,
    fail_on_usage,
    notes_on,
)
from proxy.cli.registry import CommandRegistry
from proxy.core.explain.explanation import ExplainRequest
from proxy.core.explain.recorded_request import (
    InvalidAuditEvent,
    RecordedOutcome,
    read_recorded,
    read_request,
)

_DESCRIPTION = """\
Tell why the proxy allows or denies a request: which modes apply, every access review and its
answer, what the client is told, whether the target itself may do it, and the smallest constrained
RBAC that would allow exactly this. The cluster is asked with your kubeconfig; no proxy is needed,
and nothing is changed.
"""
_EPILOG = """\
examples:
  understudy explain --user bob --as alice list pods -n web
  understudy explain --user bob --as alice list pods -n web --for-kubectl --grant-only \\
    | kubectl apply -f -
  understudy explain --audit-id 5c0ff1e5-... --audit-log audit.log

exit codes: 0 told, 1 cannot (with --grant-only: nothing to grant), 2 wrong options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "explain",
        help="tell why a request is allowed or denied, and what to grant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_request_options(parser)
    group = parser.add_argument_group("a request that has been made")
    group.add_argument(
        "--audit-event", type=Path, metavar="FILE", help="its audit event; - is standard input"
    )
    group.add_argument("--audit-id", metavar="ID", help="its Audit-Id, to be found in --audit-log")
    group.add_argument(
        "--audit-log",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="an audit log of the proxy, compressed or not; may be repeated; - is standard input",
    )
    add_cluster_options(parser)
    add_output_option(parser)
    parser.add_argument(
        "--grant-only", action="store_true", help="print what to apply, and nothing else"
    )
    parser.add_argument(
        "--for-kubectl",
        action="store_true",
        help="grant discovery as well, which kubectl visits before the deed itself",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain one request."""
    try:
        recorded, find_request = _source(options)
    except UsageError as error:
        fail_on_usage(options, error)
    advice = asyncio.run(_advise(options, find_request))
    if options.grant_only:
        return _print_grant(advice)
    notes = notes_on(advice.explanation.request)
    if options.output == "table":
        ink = colors_for(sys.stdout, os.environ)
        text = render_text(advice, ink, recorded=recorded, notes=notes)
    else:
        document = render_document(advice, recorded=recorded, notes=notes)
        text = document_text(document, options.output)
    sys.stdout.write(text)
    return 0


_FindRequest = Callable[[Cluster], Awaitable[ExplainRequest]]


async def _advise(options: argparse.Namespace, find_request: _FindRequest) -> ExplainResult:
    settings = decision_settings(options)
    async with chosen_cluster(options) as cluster:
        request = await find_request(cluster)
        return await explain_request(cluster, request, settings, for_kubectl=options.for_kubectl)


def _source(options: argparse.Namespace) -> tuple[RecordedOutcome | None, _FindRequest]:
    """Return what is known of a past request, and how to get at the one to be explained."""
    if (options.audit_id is None) != (not options.audit_log):
        raise UsageError("--audit-id and --audit-log go together")
    event = None
    if options.audit_id is not None:
        event = find_event(options.audit_id, options.audit_log)
    elif options.audit_event is not None:
        event = read_event(options.audit_event)
    if event is None:
        check_usage(options)
        return None, lambda cluster: described_request(options, cluster)
    if options.user is not None or options.verb is not None or options.raw is not None:
        raise UsageError("an audit event says it all: no --user, VERB or --raw beside it")
    try:
        recorded, request = read_recorded(event), read_request(event)
    except InvalidAuditEvent as error:
        raise RequestOptionError(f"this event cannot be explained: {error}") from error

    async def known(_cluster: Cluster) -> ExplainRequest:
        return request

    return recorded, known


def _print_grant(advice: ExplainResult) -> int:
    if advice.grant:
        sys.stdout.write(manifests_text(advice.grant))
        return 0
    why = advice.no_grant_reason or "nothing is missing for the caller to act as that identity"
    print(f"understudy: nothing to grant: {why}", file=sys.stderr)
    return 1
