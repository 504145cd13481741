"""The options that say whom to act as, spelled as kubectl spells them."""

import argparse
from collections.abc import Iterable

from proxy.core.errors import Forbidden, SetupError
from proxy.core.http.headers import check_header_safe
from proxy.core.userinfo import (
    Extra,
    Identity,
    extra_of,
    node_name,
    service_account,
)

_UNEXPANDED = "$("


class WantedError(SetupError):
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


def wanted_identity(options: argparse.Namespace) -> Identity | None:
    """Return whom the options name, None without a name; WantedError for what never works."""
    wanted = named_identity(options)
    if wanted is not None:
        _check(wanted)
    return wanted


def named_identity(options: argparse.Namespace) -> Identity | None:
    """Return whom the options name, None without a name, whatever may come of it."""
    if options.as_user is None:
        if options.as_group or options.as_uid or options.as_user_extra:
            raise WantedError("--as-group, --as-uid and --as-user-extra need --as")
        return None
    extra = collected_extra(options.as_user_extra)
    return Identity(options.as_user, options.as_uid, tuple(options.as_group), extra)


def collected_extra(pairs: Iterable[tuple[str, str]]) -> Extra:
    """Return extras from an option that was given once for each value."""
    extra: dict[str, list[str]] = {}
    for key, value in pairs:
        extra.setdefault(key, []).append(value)
    return extra_of(extra)


def _check(wanted: Identity) -> None:
    """Refuse at the start what the proxy would refuse with every request."""
    try:
        check_header_safe(wanted)
    except Forbidden as refusal:
        raise WantedError(refusal.message) from refusal
    texts = [wanted.name, wanted.uid, *wanted.groups]
    texts += [value for _, values in wanted.extra for value in values]
    if any(_UNEXPANDED in text for text in texts):
        # Kubernetes leaves $(NAME) as it is when the container has no such variable.
        raise WantedError("$(...) was not expanded: is the variable in the container's env?")
    if wanted.name.startswith("system:node:") and node_name(wanted.name) is None:
        raise WantedError(f"--as {wanted.name}: no node has that name")
    if wanted.name.startswith("system:serviceaccount:") and service_account(wanted.name) is None:
        raise WantedError(f"--as {wanted.name}: no service account has that name")


def extra_pair(text: str) -> tuple[str, str]:
    """Return the two halves of KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError("must be KEY=VALUE")
    return key, value
