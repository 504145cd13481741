"""Where we mean to answer differently from the native server, told from the request alone.

The letters are those of the list in the conformance document, in its order.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from proxy.sandbox.proxy_rbac import ALL_EXTRAS, REVIEWER_NAME, forwarder_name
from tests.parity.cases import CallerKind, Case

DUPLICATE = "a"
UNSAFE_TEXT = "b"
UNKNOWN_NAME = "c"
PROTECTED_GROUP = "d"
OWN_IDENTITY = "e"
TOO_MUCH = "f"
REFUSED_REQUEST = "g"
ALWAYS_JSON = "i"
CLOSED_UPGRADE = "j"
DISCOVERY_WARNING = "r"
WARNING_START = '299 - "understudy: '

MOST_GROUPS = 1000

_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_SINGLE = (b"impersonate-user", b"impersonate-uid", b"authorization", b"audit-id")
_KNOWN = frozenset({b"impersonate-user", b"impersonate-uid", b"impersonate-group"})
_EXTRA = b"impersonate-extra-"
_PROTECTED = b"system:masters"
_BLANK, _DELETE = 0x20, 0x7F
_DIGITS = re.compile(rb"[0-9A-Fa-f]{2}")
_OWN_NAMES = (REVIEWER_NAME, forwarder_name([ALL_EXTRAS]))


def claimed_deviation(case: Case) -> str | None:
    """Return the letter of the deviation by which we refuse a request, or None."""
    if _is_refused_request(case):
        return REFUSED_REQUEST
    if _has_broken_escape(case.target.partition(b"?")[0]):
        return None  # Both sides refuse the target before they look at any header.
    lines = [(name.lower(), value.strip(b" \t")) for name, value in case.headers]
    # What every request carries already.
    sent = [b"audit-id"]
    if case.caller.kind is not CallerKind.CERTIFICATE:
        sent.append(b"authorization")
    return _refused_header(lines, sent) or _refused_identity(lines)


def may_be_refused_request(case: Case) -> bool:
    """Tell whether a selector may hold bytes that no review could carry.

    Which parameter is a selector takes a whole query parser to say, so this is a may, not a must.
    """
    query = unquote_to_bytes(case.target.partition(b"?")[2])
    return not _is_utf8(query)


def is_upgrade(case: Case) -> bool:
    """Tell whether the client asks to speak another protocol."""
    return any(name.lower() == b"upgrade" for name, _ in case.headers)


def has_several_extra_keys(case: Case) -> bool:
    """Tell whether native may visit the keys in more than one order."""
    return len(set(_keys(case))) > 1


def is_remembered_alike(case: Case) -> bool:
    """Tell whether both sides know the same about the caller after this request."""
    is_refused = claimed_deviation(case) is not None or may_be_refused_request(case)
    return not is_refused and not has_several_extra_keys(case)


def _keys(case: Case) -> Iterator[bytes]:
    for name, _ in case.headers:
        if name.lower().startswith(_EXTRA):
            yield _decoded(name.lower())


def _is_refused_request(case: Case) -> bool:
    target = case.target
    if is_upgrade(case) and case.body is not None:
        return True  # where its body ends and the other protocol begins is anybody's guess
    if case.method not in _METHODS or not target.startswith(b"/") or b"#" in target:
        return True
    is_printable = all(_BLANK < byte < _DELETE for byte in target)
    return not (is_printable and _is_text(unquote_to_bytes(target.partition(b"?")[0])))


def _refused_header(lines: list[tuple[bytes, bytes]], sent: list[bytes]) -> str | None:
    names = [name for name, _ in lines]
    ours = [name for name in names if name.startswith(b"impersonate")]
    if any((names + sent).count(name) > 1 for name in _SINGLE):
        return DUPLICATE
    if any(name not in _KNOWN and not name.startswith(_EXTRA) for name in ours):
        return UNKNOWN_NAME
    if not all(_is_text(value) and _is_text(_decoded(name)) for name, value in lines):
        return UNSAFE_TEXT
    return TOO_MUCH if names.count(b"impersonate-group") > MOST_GROUPS else None


def _refused_identity(lines: list[tuple[bytes, bytes]]) -> str | None:
    if any((b"impersonate-user", name.encode()) in lines for name in _OWN_NAMES):
        return OWN_IDENTITY
    # Without a user the request is refused natively, and so it is by us, in the same words.
    has_user = any(name == b"impersonate-user" and value for name, value in lines)
    is_protected = has_user and (b"impersonate-group", _PROTECTED) in lines
    return PROTECTED_GROUP if is_protected else None


def _decoded(name: bytes) -> bytes:
    """Return the decoded extra key; one that does not decode is kept as it is, which is ASCII."""
    encoded = name.removeprefix(_EXTRA)
    return encoded if _has_broken_escape(encoded) else unquote_to_bytes(encoded)


def _has_broken_escape(encoded: bytes) -> bool:
    return any(_DIGITS.match(part) is None for part in encoded.split(b"%")[1:])


def _is_text(raw: bytes) -> bool:
    return _is_utf8(raw) and not any(byte < _BLANK or byte == _DELETE for byte in raw)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
