"""`understudy revoke`: removal of grants that Understudy made."""

import argparse
import asyncio

from proxy.analysis.cluster import Cluster
from proxy.analysis.existing_grants import ExistingGrant, delete_grant, find_grants
from proxy.analysis.output import escape_control_characters
from proxy.cli.options.cluster import add_cluster_options, open_selected_cluster
from proxy.cli.options.request import UsageError, exit_with_usage
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError

_DESCRIPTION = """\
Delete the roles and bindings of grants, by name or for one caller. Only objects with the label
app.kubernetes.io/managed-by=understudy are deleted. New requests are denied within the cache times
of the proxy (at most 20 seconds by default); open streams continue.
"""
_EPILOG = """\
examples:
  understudy revoke understudy:bob:05347cf8
  understudy revoke --caller bob --dry-run
  understudy grants

exit codes: 0 deleted, 1 error, or no such grant, 2 invalid options
"""


class GrantNotFoundError(OperatorError):
    """The cluster has no such grant."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "revoke",
        help="delete grants from a cluster",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="name, as `understudy grants` has")
    parser.add_argument("--caller", metavar="USER", help="all grants of this user or group alone")
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="only objects in this namespace"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be deleted, and delete nothing"
    )
    add_cluster_options(parser)
    parser.set_defaults(run=run, fail=parser.error)


def run(options: argparse.Namespace) -> int:
    """Delete the grants, and print each deleted object."""
    if bool(options.names) == (options.caller is not None):
        exit_with_usage(options, UsageError("specify names, or --caller"))
    asyncio.run(_revoke(options))
    return 0


async def _revoke(options: argparse.Namespace) -> None:
    async with open_selected_cluster(options) as cluster:
        grants = _select(options, await find_grants(cluster))
        for grant in grants:
            await _delete(cluster, grant, is_dry_run=options.dry_run)


def _select(options: argparse.Namespace, grants: list[ExistingGrant]) -> list[ExistingGrant]:
    """Return the chosen grants; GrantNotFoundError if there is none of a name."""
    if options.namespace is not None:
        grants = [grant for grant in grants if grant.namespace == options.namespace]
    if options.caller is not None:
        grants = [grant for grant in grants if grant.is_for(options.caller)]
        if not grants:
            raise GrantNotFoundError(f"{options.caller} has no grant with the label of understudy")
        return grants
    missing = set(options.names) - {grant.name for grant in grants}
    if missing:
        names = ", ".join(sorted(missing))
        raise GrantNotFoundError(f"no grant with the label of understudy is called {names}")
    return [grant for grant in grants if grant.name in options.names]


async def _delete(cluster: Cluster, grant: ExistingGrant, *, is_dry_run: bool) -> None:
    paths = list(grant.paths) if is_dry_run else await delete_grant(cluster, grant)
    place = f" in {grant.namespace}" if grant.namespace else ""
    suffix = " (dry run)" if is_dry_run else ""
    for path in paths:
        plural = path.rsplit("/", 2)[1]
        print(escape_control_characters(f"{plural}/{grant.name} deleted{place}{suffix}"))
