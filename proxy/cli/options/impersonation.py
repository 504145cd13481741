"""The options that say whom to act as, spelled as kubectl spells them."""

import argparse
from collections.abc import Iterable

from proxy.core.errors import Forbidden, OperatorError
from proxy.core.http.headers import check_header_safe
from proxy.core.userinfo import (
    Extra,
    UserInfo,
    make_extra,
    node_name,
    service_account,
)

_UNEXPANDED = "$("


class ImpersonationOptionError(OperatorError):
    """Nobody can be acted as by these options."""


def add_impersonation_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the four options; `required` is about the user's name."""
    group = parser.add_argument_group("whom to act as")
    group.add_argument(
        "--as",
        dest="as_user",
        required=required,
        metavar="USER",
        help="the user name, such as system:node:NODE or system:serviceaccount:NAMESPACE:NAME",
    )
    group.add_argument(
        "--as-group", action="append", default=[], metavar="GROUP", help="a group; may be repeated"
    )
    group.add_argument("--as-uid", default="", metavar="UID", help="the uid")
    group.add_argument(
        "--as-user-extra",
        action="append",
        default=[],
        type=extra_pair,
        metavar="KEY=VALUE",
        help="an extra; may be repeated, for one key too",
    )


def wanted_user_from(options: argparse.Namespace) -> UserInfo | None:
    """Return the user that the options name, or None; ImpersonationOptionError if invalid."""
    wanted_user = named_user(options)
    if wanted_user is not None:
        _check(wanted_user)
    return wanted_user


def named_user(options: argparse.Namespace) -> UserInfo | None:
    """Return whom the options name, None without a name, whatever may come of it."""
    if options.as_user is None:
        if options.as_group or options.as_uid or options.as_user_extra:
            raise ImpersonationOptionError("--as-group, --as-uid and --as-user-extra need --as")
        return None
    extra = collected_extra(options.as_user_extra)
    return UserInfo(options.as_user, options.as_uid, tuple(options.as_group), extra)


def collected_extra(pairs: Iterable[tuple[str, str]]) -> Extra:
    """Return extras from an option that was given once for each value."""
    extra: dict[str, list[str]] = {}
    for key, value in pairs:
        extra.setdefault(key, []).append(value)
    return make_extra(extra)


def _check(wanted_user: UserInfo) -> None:
    """Refuse at the start what the proxy would refuse with every request."""
    try:
        check_header_safe(wanted_user)
    except Forbidden as refusal:
        raise ImpersonationOptionError(refusal.message) from refusal
    texts = [wanted_user.name, wanted_user.uid, *wanted_user.groups]
    texts += [value for _, values in wanted_user.extra for value in values]
    if any(_UNEXPANDED in text for text in texts):
        # Kubernetes leaves $(NAME) as it is when the container has no such variable.
        raise ImpersonationOptionError(
            "$(...) was not expanded: is the variable in the container's env?"
        )
    if wanted_user.name.startswith("system:node:") and node_name(wanted_user.name) is None:
        raise ImpersonationOptionError(f"--as {wanted_user.name}: no node has that name")
    if (
        wanted_user.name.startswith("system:serviceaccount:")
        and service_account(wanted_user.name) is None
    ):
        raise ImpersonationOptionError(f"--as {wanted_user.name}: no service account has that name")


def extra_pair(text: str) -> tuple[str, str]:
    """Return the two halves of KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError("must be KEY=VALUE")
    return key, value
