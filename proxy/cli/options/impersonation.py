"""Options that name the user to impersonate, spelled as in kubectl."""

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

_UNEXPANDED_VARIABLE = "$("


class ImpersonationOptionError(OperatorError):
    """These options name no user that can be impersonated."""


def add_impersonation_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the four options; `required` applies to the user name."""
    group = parser.add_argument_group("impersonation")
    group.add_argument(
        "--as",
        dest="as_user",
        required=required,
        metavar="USER",
        help="user to impersonate, such as system:node:NODE or "
        "system:serviceaccount:NAMESPACE:NAME",
    )
    group.add_argument(
        "--as-group",
        action="append",
        default=[],
        metavar="GROUP",
        help="group to impersonate; may be repeated",
    )
    group.add_argument("--as-uid", default="", metavar="UID", help="uid to impersonate")
    group.add_argument(
        "--as-user-extra",
        action="append",
        default=[],
        type=parse_extra,
        metavar="KEY=VALUE",
        help="extra to impersonate; may be repeated, also for one key",
    )


def wanted_user_from(options: argparse.Namespace) -> UserInfo | None:
    """Return the user that the options name, or None; ImpersonationOptionError if invalid."""
    wanted_user = unchecked_user_from(options)
    if wanted_user is not None:
        _check_user(wanted_user)
    return wanted_user


def unchecked_user_from(options: argparse.Namespace) -> UserInfo | None:
    """Return the user that the options name, or None, without validating it."""
    if options.as_user is None:
        if options.as_group or options.as_uid or options.as_user_extra:
            raise ImpersonationOptionError("--as-group, --as-uid and --as-user-extra need --as")
        return None
    extra = collect_extra(options.as_user_extra)
    return UserInfo(options.as_user, options.as_uid, tuple(options.as_group), extra)


def collect_extra(pairs: Iterable[tuple[str, str]]) -> Extra:
    """Return the extra of an option that was given once per value."""
    extra: dict[str, list[str]] = {}
    for key, value in pairs:
        extra.setdefault(key, []).append(value)
    return make_extra(extra)


def _check_user(wanted_user: UserInfo) -> None:
    """Reject at startup what the proxy would reject in every request."""
    try:
        check_header_safe(wanted_user)
    except Forbidden as error:
        raise ImpersonationOptionError(error.message) from error
    texts = [wanted_user.name, wanted_user.uid, *wanted_user.groups]
    texts += [value for _, values in wanted_user.extra for value in values]
    if any(_UNEXPANDED_VARIABLE in text for text in texts):
        # Kubernetes keeps $(NAME) unchanged when the container has no such variable.
        raise ImpersonationOptionError(
            "$(...) was not expanded: is the variable in the container's env?"
        )
    if wanted_user.name.startswith("system:node:") and node_name(wanted_user.name) is None:
        raise ImpersonationOptionError(f"--as {wanted_user.name}: not a valid node name")
    if (
        wanted_user.name.startswith("system:serviceaccount:")
        and service_account(wanted_user.name) is None
    ):
        raise ImpersonationOptionError(f"--as {wanted_user.name}: not a valid service account name")


def parse_extra(text: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError("must be KEY=VALUE")
    return key, value
