"""The header lines of one message, with memoized results of pure functions of them.

A client sends the same lines repeatedly. A pure function of the lines is evaluated once for all
requests that share them: `lines.memoize(bearer_token)`. The results live as long as the lines,
which belong to one connection. So a token never outlives the connection that presented it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar, cast

from proxy.core.errors import Forbidden
from proxy.core.userinfo import ANONYMOUS, UNAUTHENTICATED, UserInfo

Header = tuple[bytes, bytes]
_MAX_MEMOIZED = 32
T = TypeVar("T")


class HeaderList(tuple[Header, ...]):  # noqa: SLOT001 - a tuple cannot have slots of its own
    """Header lines in the order received, as a tuple of names and values."""

    _results: dict[object, object]

    def __init__(self, _lines: Iterable[Header] = ()) -> None:
        self._results = {}

    def memoize(self, function: "Callable[[HeaderList], T]") -> T:
        """Return the result of a function of these lines, evaluated once.

        The function must be pure: equal lines, equal result, for as long as the function exists.
        A function that raises is evaluated each time.
        """
        results = self._results
        if function in results:
            return cast("T", results[function])
        if len(results) >= _MAX_MEMOIZED:
            results.clear()  # most belong to components that a reload has replaced
        result = results[function] = function(self)
        return result

    def clear_memo(self) -> None:
        """Discard all memoized results."""
        self._results.clear()


NO_HEADERS = HeaderList()


def parse_header_lines(head: bytes) -> list[Header]:
    """Return the header lines of a head that the proxy built or verified as plain."""
    lines = []
    for line in head.split(b"\r\n")[1:-1]:
        name, _, value = line.partition(b": ")
        lines.append((name, value))
    return lines


def encode_header_lines(lines: Sequence[Header]) -> bytes:
    """Return header lines encoded for the wire."""
    return b"".join([b"%b: %b\r\n" % line for line in lines])


# Tab is legal inside a header value, but no user name needs one, and not every hop preserves it.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def unsafe_text_reason(text: str) -> str | None:
    """Return why a text would not reach the API server unchanged, or None if it would."""
    if text.isascii() and text.isprintable():
        return "has leading or trailing spaces" if text != text.strip(" ") else None
    if _CONTROL.search(text):
        return "has control characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return "has leading or trailing spaces" if text != text.strip(" ") else None


def unsafe_key_reason(key: str) -> str | None:
    """Return why an extra key is unsafe, or None. Spaces are safe, because they are encoded."""
    return unsafe_text_reason(key.replace(" ", "_"))


def check_caller_forwardable(user: UserInfo) -> None:
    """Reject a caller that the API server would read as another user or put into other groups."""
    if user.name == ANONYMOUS and UNAUTHENTICATED not in user.groups:
        # The API server adds the group to every impersonated user of this name.
        raise Forbidden(
            f"an identity named {ANONYMOUS} without {UNAUTHENTICATED} cannot be forwarded"
        )
    check_header_safe(user)


def check_header_safe(user: UserInfo) -> None:
    """Reject a user that the API server would read differently from how it was authenticated.

    An empty group or extra value is preserved as an empty header line. An empty name is not, and an
    extra key without values has no header line.
    """
    if not user.name:
        raise Forbidden("an identity without a user name cannot be forwarded")
    if _is_plain(user):
        return
    _reject(unsafe_text_reason(user.name), "user name")
    _reject(unsafe_text_reason(user.uid), "uid")
    for group in user.groups:
        _reject(unsafe_text_reason(group), "group")
    for key, values in user.extra:
        _reject(unsafe_key_reason(key) if values else "has no values", "extra key")
        for value in values:
            _reject(unsafe_text_reason(value), "extra value")


def _is_plain(user: UserInfo) -> bool:
    """Return whether one fast test shows that all texts are safe, as for nearly all users."""
    texts = [user.name, user.uid, *user.groups]
    for key, values in user.extra:
        if not values:
            return False
        texts += (key, *values)
    joined = "".join(texts)
    return joined.isascii() and joined.isprintable() and " " not in joined


def _reject(reason: str | None, what: str) -> None:
    # The text itself is not in the message, because it cannot be transmitted faithfully.
    if reason is not None:
        raise Forbidden(f"an identity whose {what} {reason} cannot be forwarded")


_BARE_KEY_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")
_MAX_CACHED_KEY_LENGTH = 128


def impersonation_header_lines(user: UserInfo) -> list[Header]:
    """Return all header lines that impersonate a user, one line per value, the name first."""
    lines = [(b"Impersonate-User", user.name.encode())]
    if user.uid:
        lines.append((b"Impersonate-Uid", user.uid.encode()))
    lines += [(b"Impersonate-Group", group.encode()) for group in user.groups]
    for key, values in user.extra:
        name = b"Impersonate-Extra-" + encode_extra_key(key)
        lines += [(name, value.encode()) for value in values]
    return lines


def encode_extra_key(key: str) -> bytes:
    """Return an extra key encoded for a header name, with upper-case letters escaped.

    The API server lower-cases before it decodes, so an unescaped letter would lose its case.
    """
    return _cached_encode_key(key) if len(key) <= _MAX_CACHED_KEY_LENGTH else _encode_key(key)


def _encode_key(key: str) -> bytes:
    return b"".join(
        b"%c" % byte if byte in _BARE_KEY_BYTES else b"%%%02X" % byte for byte in key.encode()
    )


# Few keys exist in practice, and a bounded number of short keys takes a bounded amount of memory.
_cached_encode_key = lru_cache(maxsize=1024)(_encode_key)
