"""`understudy who-can`: the subjects that may impersonate a user for an action."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from proxy.analysis.access import ConfirmedHolder, confirm_holders
from proxy.analysis.grant_check import cluster_rbac
from proxy.analysis.output import document_text, table_lines
from proxy.cli.options.cluster import add_cluster_options, add_output_option, open_selected_cluster
from proxy.cli.options.impersonation import add_impersonation_options, unchecked_user_from
from proxy.cli.options.request import (
    UsageError,
    add_verb_resource_options,
    check_request_usage,
    exit_with_usage,
    request_info_from,
)
from proxy.cli.registry import CommandRegistry
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import UNNAMED_USER, RBACSnapshot
from proxy.core.rbac.who_can import (
    ANY_NODE,
    Holder,
    ImpersonationHolder,
    identity_holders,
    masters_impersonators,
    node_holders,
)
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import ANONYMOUS, UserInfo

_DESCRIPTION = """\
Read a cluster's RBAC and list the subjects that may impersonate a user for an action, with mode and
roles, and whether the API server confirms it. Members of groups cannot be listed, so a subject may
be a group, or a user together with a group. Permissions by other authorizers than RBAC are not
found. Restrictions in the proxy's config file are not considered.
"""
_EPILOG = """\
examples:
  understudy who-can --as alice list pods -n web
  understudy who-can --as-any-node get secrets -A
  understudy who-can --as-masters

exit codes: 0 listed, 1 error, or the API server denied a listed subject, 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "who-can",
        help="list the subjects that may impersonate a user for an action",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_verb_resource_options(parser)
    add_impersonation_options(parser, required=False)
    parser.add_argument(
        "--as-any-node", action="store_true", help="impersonate any node, or the associated node"
    )
    parser.add_argument(
        "--as-masters",
        action="store_true",
        help="impersonate the group system:masters by legacy impersonation, for every action",
    )
    add_cluster_options(parser)
    add_output_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Find the subjects and print them."""
    try:
        _check_usage(options)
    except UsageError as error:
        exit_with_usage(options, error)
    holders = asyncio.run(_find(options))
    if options.output == "table":
        print_table(holders)
    else:
        sys.stdout.write(document_text([record(holder) for holder in holders], options.output))
    return 0 if all(holder.is_confirmed for holder in holders) else 1


def _check_usage(options: argparse.Namespace) -> None:
    wanted = [options.as_user is not None, options.as_any_node, options.as_masters]
    if wanted.count(True) != 1:
        raise UsageError("use exactly one of --as, --as-any-node and --as-masters")
    if not options.as_masters:
        check_request_usage(options)
    elif options.verb is not None or options.raw is not None:
        raise UsageError("--as-masters covers every action: do not specify one")


async def _find(options: argparse.Namespace) -> list[ConfirmedHolder]:
    async with open_selected_cluster(options) as cluster:
        rbac = await cluster_rbac(cluster)
        if options.as_masters:
            return await confirm_holders(
                cluster, masters_impersonators(rbac), RequestInfo("get", "/")
            )
        request_info = await request_info_from(options, cluster)
        return await confirm_holders(cluster, _holders(options, rbac, request_info), request_info)


def _holders(
    options: argparse.Namespace, rbac: RBACSnapshot, request_info: RequestInfo
) -> list[ImpersonationHolder]:
    if options.as_any_node:
        return node_holders(rbac, request_info)
    wanted_user = unchecked_user_from(options)
    assert wanted_user is not None  # checked by _check_usage
    return identity_holders(rbac, wanted_user, request_info)


def print_table(holders: Sequence[ConfirmedHolder]) -> None:
    """Print one line per holder."""
    if not holders:
        print("no subject found in RBAC")
        return
    header = ("SUBJECT", "AS", "MODE", "BY", "REVIEWED")
    rows = [
        (
            _subject(confirmed.holder, _condition(confirmed)),
            _target(confirmed),
            confirmed.holder.mode.value,
            ", ".join(confirmed.holder.roles) or "the API server itself",
            "allowed" if confirmed.is_confirmed else "DENIED",
        )
        for confirmed in holders
    ]
    print("\n".join(table_lines(header, rows)))


def _condition(confirmed: ConfirmedHolder) -> str:
    """Return where the subject must run; empty without a condition."""
    if confirmed.holder.mode is not ImpersonationMode.ASSOCIATED_NODE:
        return ""
    return "" if _is_any_node(confirmed.wanted_user) else "from a pod on that node"


def _is_any_node(user: UserInfo) -> bool:
    return user.name.endswith(f":{ANY_NODE}")


def _subject(holder: Holder, condition: str) -> str:
    name = _subject_name(holder)
    return f"{name}, {condition}" if condition else name


def _subject_name(holder: Holder) -> str:
    base = holder.name
    if not base:
        on_node = holder.mode is ImpersonationMode.ASSOCIATED_NODE
        base = "any service account" if on_node else "any authenticated user"
    elif base == ANONYMOUS:
        base = "any client, unauthenticated"
    if not holder.groups:
        return base
    groups = " and ".join(holder.groups)
    return f"{base} in {groups}" if holder.name else f"group {groups}"


def _target(confirmed: ConfirmedHolder) -> str:
    wanted_user = confirmed.wanted_user
    name = wanted_user.name
    if name == UNNAMED_USER:
        name = "any user"
    elif _is_any_node(wanted_user):
        # A caller in this mode can impersonate the node that it runs on, and no other.
        is_own = confirmed.holder.mode is ImpersonationMode.ASSOCIATED_NODE
        name = "its own node" if is_own else "any node"
    return f"{name} in {', '.join(wanted_user.groups)}" if wanted_user.groups else name


def record(confirmed: ConfirmedHolder) -> dict[str, object]:
    """Return one holder as a value of a document."""
    holder = confirmed.holder
    return {
        "user": holder.name or None,
        "groups": list(holder.groups),
        "mode": holder.mode.value,
        "as": _target(confirmed),
        "condition": _condition(confirmed) or None,
        "roles": list(holder.roles),
        "reviewed": confirmed.is_confirmed,
    }
