"""Request-header authentication: user info from `X-Remote-*` or other configured headers.

The headers may be trusted only from a peer that was verified as a front proxy. That verification
is not done here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.gocompat.url import path_unescape
from proxy.core.http.headers import Header
from proxy.core.userinfo import UserInfo, authenticated_groups, make_extra


@dataclass(frozen=True, slots=True)
class FrontProxyHeaderNames:
    """The names of the headers, in lower case, in order of precedence."""

    user: tuple[bytes, ...]
    uid: tuple[bytes, ...]
    group: tuple[bytes, ...]
    extra_prefixes: tuple[bytes, ...]

    @property
    def names(self) -> frozenset[bytes]:
        """All complete header names, without the extra prefixes."""
        return frozenset((*self.user, *self.uid, *self.group))


def parse_front_proxy_user(
    headers: Sequence[Header], names: FrontProxyHeaderNames
) -> UserInfo | None:
    """Parse the user as kube-apiserver does; None if the headers name no user.

    For user and uid the first line of a header name counts; if it is empty, that of the next name.
    All groups that are not empty count, and all extras. Bytes that are not UTF-8 become surrogate
    escapes, so that the user is rejected later and not altered.
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
    # The name is lower-cased before it is decoded, so %4d is an upper-case letter and M is not. A
    # key that cannot be decoded is used unchanged.
    key = path_unescape(encoded)
    return _text(encoded) if key is None else key


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
