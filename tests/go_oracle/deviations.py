"""Where we mean to answer differently from the native server, told from the request alone.

The letters are those of the list in the conformance document. A rule that holds demands our 400:
a deviation that we claim and do not have is as wrong as one that we have and do not claim.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from proxy.core.userinfo import MASTERS
from tests.go_oracle.cases import Sequence, Step

DUPLICATE = "a"
UNSAFE_TEXT = "b"
UNKNOWN_NAME = "c"
PROTECTED_GROUP = "d"
REFUSED_REQUEST = "g"
ALWAYS_JSON = "i"

_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_SINGLE = (b"impersonate-user", b"impersonate-uid")
_KNOWN = frozenset({*_SINGLE, b"impersonate-group"})
_EXTRA = b"impersonate-extra-"


def may_deviate(step: Step) -> bool:
    """Tell whether we may refuse a request with which the native server goes on."""
    return refused_request(step) or may_be_refused_request(step) or refused_header(step) is not None


def refused_request(step: Step) -> bool:
    """Tell whether the request line alone is one that we never forward."""
    if step.method not in _METHODS or not step.target.startswith(b"/") or b"#" in step.target:
        return True
    if not step.target.isascii():
        return True
    path = unquote_to_bytes(step.target.partition(b"?")[0])
    return not _is_text(path)


def may_be_refused_request(step: Step) -> bool:
    """Tell whether the head is doubtful, or a selector may hold bytes that no review could carry.

    Where heads are doubtful we may be stricter than net/http and never laxer. Which parameter is a
    selector takes a whole query parser to say. So this is a may, not a must.
    """
    if step.odd_lines or step.version != b"HTTP/1.1":
        return True
    query = unquote_to_bytes(step.target.partition(b"?")[2])
    return not _is_utf8(query)


def refused_header(step: Step) -> str | None:
    """Return the letter of the deviation by which the headers are refused, if there is one."""
    lines = list(_impersonation_lines(step))
    names = [name for name, _ in lines]
    if any(names.count(name) > 1 for name in _SINGLE):
        return DUPLICATE
    if any(name not in _KNOWN and not name.startswith(_EXTRA) for name in names):
        return UNKNOWN_NAME
    if not all(_is_text(value) and _is_text(_key(name)) for name, value in lines):
        return UNSAFE_TEXT
    return None


def refused_masters(sequence: Sequence, step: Step) -> bool:
    """Tell whether the request would run with the protected group, natively or not."""
    if not sequence.protects_masters:
        return False
    if _acts_as_itself(step):
        return MASTERS in step.requestor.groups
    lines = list(_impersonation_lines(step))
    names_user = any(name == b"impersonate-user" and value for name, value in lines)
    return names_user and (b"impersonate-group", MASTERS.encode()) in lines


def unsafe_requestor(step: Step) -> bool:
    """Tell whether the caller itself, acting as itself, would not survive being forwarded."""
    if not _acts_as_itself(step):
        return False
    requestor = step.requestor
    texts = [requestor.name, requestor.uid, *requestor.groups]
    for key, values in requestor.extra:
        if not values:
            return True
        texts += [key, *values]
    return not all(_is_text(text.encode()) for text in texts)


def _acts_as_itself(step: Step) -> bool:
    # An empty user or uid is as good as none; an empty group is a group.
    return not any(value or name not in _SINGLE for name, value in _impersonation_lines(step))


def _impersonation_lines(step: Step) -> Iterator[tuple[bytes, bytes]]:
    for name, value in step.headers:
        lowered = name.lower()
        if lowered.startswith(b"impersonate"):
            yield lowered, value.strip(b" \t")


def _key(name: bytes) -> bytes:
    """Return the decoded extra key; one that does not decode is kept as it is, which is ASCII."""
    encoded = name.removeprefix(_EXTRA)
    digits = b"0123456789abcdef"
    for part in encoded.split(b"%")[1:]:
        if len(part) < 2 or part[0] not in digits or part[1] not in digits:
            return encoded
    return unquote_to_bytes(encoded)


def _is_text(raw: bytes) -> bool:
    return _is_utf8(raw) and _CONTROL.search(raw) is None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
