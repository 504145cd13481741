"""`understudy can-i`: one answer to three questions, and an exit code."""

import argparse
import asyncio
import os
import sys

from proxy.analysis.explain import AccessPart, ExplainResult, explain_request, summarize_parts
from proxy.analysis.output import Colors, colors_for, document_text
from proxy.cli.options.cluster import add_cluster_options, add_output_option, chosen_cluster
from proxy.cli.options.request import (
    UsageError,
    add_request_options,
    check_usage,
    decision_settings,
    described_request,
    fail_on_usage,
    notes_on,
)
from proxy.cli.registry import CommandRegistry

_DESCRIPTION = """\
Ask whether a request through the proxy would be allowed: whether the caller may do the action on
behalf of others, whether it may act as that identity, and whether that identity itself may do it.
`kubectl auth can-i` knows only the last. The cluster is asked with your kubeconfig.
"""
_EPILOG = """\
examples:
  understudy can-i --user bob --as alice list pods -n web
  understudy can-i --user system:serviceaccount:monitoring:agent \\
    --extra authentication.kubernetes.io/node-name=node-1 --as system:node:node-1 get nodes node-1

exit codes: 0 yes, 1 no (or nobody could be asked), 2 wrong options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "can-i",
        help="ask whether somebody may act as somebody else, for an action",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_request_options(parser)
    add_cluster_options(parser)
    add_output_option(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="only the exit code")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask, answer, and tell by the exit code."""
    try:
        check_usage(options)
    except UsageError as error:
        fail_on_usage(options, error)
    advice = asyncio.run(_advise(options))
    is_allowed = advice.explanation.is_allowed
    for note in notes_on(advice.explanation.request):
        print(f"understudy: {note}", file=sys.stderr)
    if not options.quiet:
        sys.stdout.write(_answer(advice, options.output))
    return 0 if is_allowed else 1


async def _advise(options: argparse.Namespace) -> ExplainResult:
    settings = decision_settings(options)
    async with chosen_cluster(options) as cluster:
        return await explain_request(cluster, await described_request(options, cluster), settings)


def _answer(advice: ExplainResult, output: str) -> str:
    explanation, parts = advice.explanation, summarize_parts(advice.explanation)
    if output == "table":
        ink = colors_for(sys.stdout, os.environ)
        lines = [ink.good("yes") if explanation.is_allowed else ink.bad("no")]
        lines += [_part_line(part, ink) for part in parts]
        if (
            explanation.response is not None
            and explanation.response.is_from_proxy
            and advice.no_grant_reason
        ):
            lines.append(f"  no grant can allow this: {advice.no_grant_reason}")
        return "\n".join(lines) + "\n"
    document = {
        "allowed": explanation.is_allowed,
        "mode": None if explanation.mode is None else explanation.mode.value,
        "parts": [
            {"part": part.name, "allowed": part.allowed, "question": part.check} for part in parts
        ],
        "message": None if explanation.response is None else explanation.response.message,
        "noGrant": advice.no_grant_reason or None,
    }
    return document_text(document, output)


def _part_line(part: AccessPart, ink: Colors) -> str:
    said = ink.faint("--") if part.allowed is None else ink.bad("no")
    if part.allowed:
        said = ink.good("yes")
    return f"  {part.name}: {said}  {part.check}"
