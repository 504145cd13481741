"""The header lines of one message, and which texts they can carry unchanged."""

import re
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from proxy.core.errors import Forbidden
from proxy.core.userinfo import ANONYMOUS, UNAUTHENTICATED, UserInfo

Header = tuple[bytes, bytes]
T = TypeVar("T")


class DerivedValue(NamedTuple, Generic[T]):
    """A value that depends on header lines and rules alone. It holds for the same rules object."""

    rules: object
    value: T


class HeaderList(tuple[Header, ...]):  # noqa: SLOT001 - a tuple cannot have slots of its own
    """Header lines in the order received, with two values that are derived from many lines.

    A client repeats its lines in many requests, which then share one list. It belongs to one
    connection, and the values end with it.
    """

    wanted_user: DerivedValue[UserInfo | None] | None = None
    """Set by `ImpersonationHeaderParser`."""
    forwarded: DerivedValue[bytes] | None = None
    """Set by `ForwardingRules`: the encoded lines that are forwarded."""

    def clear_derived(self) -> None:
        """Discard both values."""
        self.wanted_user = self.forwarded = None


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
_ENCODED_KEY_BYTES = [
    b"%c" % byte if byte in _BARE_KEY_BYTES else b"%%%02X" % byte for byte in range(256)
]


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
    return b"".join([_ENCODED_KEY_BYTES[byte] for byte in key.encode()])
