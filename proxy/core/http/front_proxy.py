"""Whom a front proxy speaks for: `X-Remote-*` headers, or others by configuration, as an identity.

Only a peer that was verified to be a front proxy may be believed; that is not decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.gocompat.url import path_unescape
from proxy.core.http.headers import Header
from proxy.core.userinfo import UserInfo, authenticated_groups, make_extra


@dataclass(frozen=True, slots=True)
class FrontProxyHeaderNames:
    """The names of the headers, in lower case, in the order in which they are looked at."""

    user: tuple[bytes, ...]
    uid: tuple[bytes, ...]
    group: tuple[bytes, ...]
    extra_prefixes: tuple[bytes, ...]

    @property
    def names(self) -> frozenset[bytes]:
        """Each name that stands for itself."""
        return frozenset((*self.user, *self.uid, *self.group))


def parse_front_proxy_user(
    headers: Sequence[Header], names: FrontProxyHeaderNames
) -> UserInfo | None:
    """Return who is spoken for, read as the API server reads it; None when nobody is named.

    Of a user or a uid the first line of a name counts, and if that is empty the next name's; every
    group that is not empty counts, and every extra. Bytes that are not UTF-8 become surrogate
    escapes, so that the identity is refused and not altered.
    """
    lines = [(name.lower(), value) for name, value in headers]
    user = _first_value(lines, names.user)
    if not user:
        return None
    groups = [
        _text(value) for wanted in names.group for name, value in lines if name == wanted and value
    ]
    return UserInfo(
        name=user,
        uid=_first_value(lines, names.uid),
        groups=authenticated_groups(user, groups),
        extra=make_extra(_extra(lines, names.extra_prefixes)),
    )


def _first_value(lines: Sequence[Header], wanted_names: Sequence[bytes]) -> str:
    for wanted in wanted_names:
        value = next((value for name, value in lines if name == wanted), b"")
        if value:
            return _text(value)
    return ""


def _extra(lines: Sequence[Header], prefixes: Sequence[bytes]) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for prefix in prefixes:
        for name, value in lines:
            if name.startswith(prefix):
                extra.setdefault(_extra_key(name[len(prefix) :]), []).append(_text(value))
    return extra


def _extra_key(encoded: bytes) -> str:
    # Lower-cased before it is decoded, so %4d is an upper-case letter and M is not; what cannot be
    # decoded is taken as it stands.
    key = path_unescape(encoded)
    return _text(encoded) if key is None else key


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
