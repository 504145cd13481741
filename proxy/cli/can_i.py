"""`understudy can-i`: whether an impersonated request is allowed, as text and exit code."""

import argparse
import asyncio
import os
import sys

from proxy.analysis.explain import AccessPart, ExplainResult, explain_request, summarize_parts
from proxy.analysis.output import Colors, colors_for, document_text
from proxy.cli.options.cluster import add_cluster_options, add_output_option, open_selected_cluster
from proxy.cli.options.request import (
    UsageError,
    add_request_options,
    check_usage,
    decision_settings,
    exit_with_usage,
    explain_request_from,
    request_hints,
)
from proxy.cli.registry import CommandRegistry

_DESCRIPTION = """\
Check whether a request through the proxy would be allowed. Three parts are checked: whether the
caller may perform the action while impersonating, whether it may impersonate that user, and whether
that user may perform the action. `kubectl auth can-i` checks only the last part. The cluster is
queried with your kubeconfig.
"""
_EPILOG = """\
examples:
  understudy can-i --user bob --as alice list pods -n web
  understudy can-i --user system:serviceaccount:monitoring:agent \\
    --extra authentication.kubernetes.io/node-name=node-1 --as system:node:node-1 get nodes node-1

exit codes: 0 allowed, 1 denied, or the cluster could not be queried, 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "can-i",
        help="check whether a user may impersonate another user for an action",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_request_options(parser)
    add_cluster_options(parser)
    add_output_option(parser)
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing; return only the exit code"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the request, print the result, and return it as the exit code."""
    try:
        check_usage(options)
    except UsageError as error:
        exit_with_usage(options, error)
    result = asyncio.run(_explain(options))
    is_allowed = result.explanation.is_allowed
    for note in (*request_hints(result.explanation.request), *result.warnings):
        print(f"understudy: {note}", file=sys.stderr)
    if not options.quiet:
        sys.stdout.write(_render(result, options.output))
    return 0 if is_allowed else 1


async def _explain(options: argparse.Namespace) -> ExplainResult:
    settings = decision_settings(options)
    async with open_selected_cluster(options) as cluster:
        return await explain_request(
            cluster, await explain_request_from(options, cluster), settings
        )


def _render(result: ExplainResult, output: str) -> str:
    explanation, parts = result.explanation, summarize_parts(result.explanation)
    if output == "table":
        colors = colors_for(sys.stdout, os.environ)
        lines = [colors.good("yes") if explanation.is_allowed else colors.bad("no")]
        lines += [_part_line(part, colors) for part in parts]
        if (
            explanation.response is not None
            and explanation.response.is_from_proxy
            and result.no_grant_reason
        ):
            lines.append(f"  no grant can allow this: {result.no_grant_reason}")
        return "\n".join(lines) + "\n"
    document = {
        "allowed": explanation.is_allowed,
        "mode": None if explanation.mode is None else explanation.mode.value,
        "parts": [
            {"part": part.name, "allowed": part.allowed, "question": part.check} for part in parts
        ],
        "message": None if explanation.response is None else explanation.response.message,
        "noGrant": result.no_grant_reason or None,
    }
    return document_text(document, output)


def _part_line(part: AccessPart, colors: Colors) -> str:
    result = colors.faint("--") if part.allowed is None else colors.bad("no")
    if part.allowed:
        result = colors.good("yes")
    return f"  {part.name}: {result}  {part.check}"
