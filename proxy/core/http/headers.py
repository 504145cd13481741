"""The header lines of one message, and what was found out about them.

A client sends the same lines again and again. Whoever asks a pure question about lines asks it
once for all requests that share them: `lines.derive(bearer_token)`. What is found lives and ends
with the lines, which belong to one connection: a token never outlives the client that showed it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar, cast

from proxy.core.errors import Forbidden
from proxy.core.userinfo import ANONYMOUS, UNAUTHENTICATED, UserInfo

Header = tuple[bytes, bytes]
_MOST_QUESTIONS = 32
T = TypeVar("T")


class HeaderList(tuple[Header, ...]):  # noqa: SLOT001 - a tuple cannot have slots of its own
    """Header lines in the order they came, as a tuple of names and values."""

    _found: dict[object, object]

    def __init__(self, _lines: Iterable[Header] = ()) -> None:
        self._found = {}

    def memoize(self, question: "Callable[[HeaderList], T]") -> T:
        """Return what a question answers about these lines.

        The question must be pure: equal lines, equal answer, for as long as the question exists.
        One that raises is asked anew each time.
        """
        found = self._found
        if question in found:
            return cast("T", found[question])
        if len(found) >= _MOST_QUESTIONS:
            found.clear()  # of rooms that a reload has replaced long ago
        answer = found[question] = question(self)
        return answer

    def clear_memo(self) -> None:
        """Let go of what was found; whoever asks again is answered anew."""
        self._found.clear()


NO_LINES = HeaderList()


def header_lines(head: bytes) -> list[Header]:
    """Return the lines of a head that was made by us or found plain; the first is no header."""
    lines = []
    for line in head.split(b"\r\n")[1:-1]:
        name, _, value = line.partition(b": ")
        lines.append((name, value))
    return lines


def encoded_lines(lines: Sequence[Header]) -> bytes:
    """Return header lines as they go on the wire."""
    return b"".join([b"%b: %b\r\n" % line for line in lines])


# Tab is legal inside a header value, but no name needs one and not every hop keeps it.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def unsafe_text_reason(text: str) -> str | None:
    """Return what would change a text on its way upstream, or None when nothing would."""
    if text.isascii() and text.isprintable():
        return "has outer blanks" if text != text.strip(" ") else None
    if _CONTROL.search(text):
        return "has control characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return "has outer blanks" if text != text.strip(" ") else None


def unsafe_key_reason(key: str) -> str | None:
    """Return what is wrong with an extra key, or None. Blanks are safe: they travel encoded."""
    return unsafe_text_reason(key.replace(" ", "_"))


def check_caller(user: UserInfo) -> None:
    """Refuse a caller that upstream would take for another one, or put into another group."""
    if user.name == ANONYMOUS and UNAUTHENTICATED not in user.groups:
        # The API server adds the group to whoever is impersonated under this name.
        raise Forbidden(
            f"an identity named {ANONYMOUS} without {UNAUTHENTICATED} cannot be forwarded"
        )
    check_header_safe(user)


def check_header_safe(user: UserInfo) -> None:
    """Refuse an identity that upstream would read differently from how it was authenticated.

    An empty group or extra value survives as an empty header line; an empty name does not, and an
    extra key without values has no line to travel on.
    """
    if not user.name:
        raise Forbidden("an identity without a user name cannot be forwarded")
    if _is_plain(user):
        return
    _refuse(unsafe_text_reason(user.name), "user name")
    _refuse(unsafe_text_reason(user.uid), "uid")
    for group in user.groups:
        _refuse(unsafe_text_reason(group), "group")
    for key, values in user.extra:
        _refuse(unsafe_key_reason(key) if values else "has no values", "extra key")
        for value in values:
            _refuse(unsafe_text_reason(value), "extra value")


def _is_plain(user: UserInfo) -> bool:
    """Tell in one look that nothing can be wrong, which is so for nearly everyone."""
    texts = [user.name, user.uid, *user.groups]
    for key, values in user.extra:
        if not values:
            return False
        texts += (key, *values)
    joined = "".join(texts)
    return joined.isascii() and joined.isprintable() and " " not in joined


def _refuse(fault: str | None, what: str) -> None:
    # The text itself stays out of the message: it is what cannot be carried faithfully.
    if fault is not None:
        raise Forbidden(f"an identity whose {what} {fault} cannot be forwarded")


_BARE_KEY_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")
_LONGEST_REMEMBERED_KEY = 128


def impersonation_header_lines(user: UserInfo) -> list[Header]:
    """Return the complete impersonation of an identity, one line per value, the user first."""
    lines = [(b"Impersonate-User", user.name.encode())]
    if user.uid:
        lines.append((b"Impersonate-Uid", user.uid.encode()))
    lines += [(b"Impersonate-Group", group.encode()) for group in user.groups]
    for key, values in user.extra:
        name = b"Impersonate-Extra-" + encoded_extra_key(key)
        lines += [(name, value.encode()) for value in values]
    return lines


def encoded_extra_key(key: str) -> bytes:
    """Return an extra key as it survives in a header name, upper-case letters included.

    The server lower-cases before it decodes, so a letter sent bare would lose its case.
    """
    return _remembered_key(key) if len(key) <= _LONGEST_REMEMBERED_KEY else _encode_key(key)


def _encode_key(key: str) -> bytes:
    return b"".join(
        b"%c" % byte if byte in _BARE_KEY_BYTES else b"%%%02X" % byte for byte in key.encode()
    )


# Few keys exist in practice, and a bounded number of short ones costs a bounded amount of memory.
_remembered_key = lru_cache(maxsize=1024)(_encode_key)
