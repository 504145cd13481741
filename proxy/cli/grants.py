"""`understudy grants`: the grants in a cluster that Understudy made."""

import argparse
import asyncio
import sys

from proxy.analysis.existing_grants import ExistingGrant, find_grants
from proxy.analysis.output import document_text, table_lines
from proxy.cli.options.cluster import add_cluster_options, add_output_option, open_selected_cluster
from proxy.cli.registry import CommandRegistry

_DESCRIPTION = """\
List the grants in a cluster that `explain`, `grant` and `report` made, found by the label
app.kubernetes.io/managed-by=understudy: caller, target, actions and date.
"""
_EPILOG = """\
examples:
  understudy grants
  understudy grants --caller bob -o json
  understudy revoke understudy:bob:05347cf8

exit codes: 0 listed, 1 error, 2 invalid options
"""
_HEADER = ("NAME", "KIND", "NAMESPACE", "CALLER", "AS", "FOR", "MADE")
_ALL = "(cluster)"


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "grants",
        help="list the grants in a cluster",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--caller", metavar="USER", help="only grants of this user or group")
    add_cluster_options(parser)
    add_output_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the grants."""
    grants = asyncio.run(_find(options))
    if options.output != "table":
        sys.stdout.write(document_text([_record(grant) for grant in grants], options.output))
    elif grants:
        print("\n".join(table_lines(_HEADER, map(row, grants))))
    else:
        print("no grants found", file=sys.stderr)
    return 0


async def _find(options: argparse.Namespace) -> list[ExistingGrant]:
    async with open_selected_cluster(options) as cluster:
        grants = await find_grants(cluster)
    caller = options.caller
    return [grant for grant in grants if caller is None or caller in grant.callers]


def row(grant: ExistingGrant) -> tuple[str, ...]:
    """Return one grant as cells of the table."""
    callers = ", ".join(grant.callers) or "-"
    return (
        grant.name,
        grant.kind,
        grant.namespace or _ALL,
        callers,
        grant.target,
        grant.purpose,
        grant.made_at,
    )


def _record(grant: ExistingGrant) -> dict[str, object]:
    return {
        "name": grant.name,
        "kind": grant.kind,
        "namespace": grant.namespace or None,
        "callers": list(grant.callers),
        "annotations": dict(grant.annotations),
        "objects": list(grant.paths),
    }
