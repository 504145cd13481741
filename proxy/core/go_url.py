"""Request targets and queries, read with the rules of Go's `net/url`.

The API server decides from these rules what a request does. Any other reading, however sensible,
would authorize one action and let another one happen.
"""

import re
from collections.abc import Container
from urllib.parse import unquote_to_bytes

from proxy.core.errors import BadRequest

_ORIGIN_FORM = re.compile(rb"/[!\"$-~\x80-\xff]*")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MOST_PARAMETERS = 10_000
# What `URL.EscapedPath` leaves alone in a path that is already encoded.
_ENCODED_PATH = re.compile(rb"[-A-Za-z0-9._~!$&'()*+,;=:@%/\[\]]*")
_NEVER_ESCAPED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~$&+,/:;=@"
)


def split_target(target: bytes) -> tuple[str, bytes]:
    """Return the decoded path and the raw query of an origin-form target, or refuse it.

    A target is refused when a later reader could take it for another one: absolute-form, `*`, a
    fragment, blanks and control characters, escapes that are broken or hide non-text.
    """
    if _ORIGIN_FORM.fullmatch(target) is None:
        raise BadRequest(_target_fault(target))
    raw_path, _, query = target.partition(b"?")
    # Later servers drop a longer query as a whole and earlier ones do not: it has two meanings.
    if query.count(b"&") >= _MOST_PARAMETERS:
        raise BadRequest("the request target has too many query parameters")
    if b"%" not in raw_path and raw_path.isascii():
        return raw_path.decode("ascii"), query
    return _decoded_path(raw_path), query


def first_values(query: bytes, wanted: Container[str]) -> dict[str, str]:
    """Return the first value of each wanted query parameter that is present.

    Pairs that hold a `;` or a broken escape do not exist for Go, so the next one counts.
    """
    values: dict[str, str] = {}
    for pair in query.split(b"&"):
        raw_key, _, raw_value = pair.partition(b"=")
        key = query_unescape(raw_key)
        if key is None or key not in wanted or key in values or b";" in pair:
            continue
        value = query_unescape(raw_value)
        if value is not None:
            values[key] = value
    return values


def query_unescape(raw: bytes) -> str | None:
    """Return a decoded key or value, or None when an escape is broken.

    Bytes that are not UTF-8 become surrogate escapes, so that nothing is lost or confused.
    """
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    return _unescape(raw)


def path_unescape(raw: bytes) -> str | None:
    """Return decoded text in which `+` stays `+`, or None when an escape is broken."""
    return _unescape(raw)


def request_uri(target: bytes) -> str:
    """Return a target as the API server's audit log and messages show it.

    It is the target itself unless its path holds bytes that ought to be escaped.
    """
    raw_path, mark, query = target.partition(b"?")
    if _ENCODED_PATH.fullmatch(raw_path) is None:
        raw_path = _escaped_path(unquote_to_bytes(raw_path))
    return (raw_path + mark + query).decode("utf-8", "surrogateescape")


def _unescape(raw: bytes) -> str | None:
    if b"%" in raw:
        if _BAD_ESCAPE.search(raw) is not None:
            return None
        raw = unquote_to_bytes(raw)
    return raw.decode("utf-8", "surrogateescape")


def _decoded_path(raw_path: bytes) -> str:
    if _BAD_ESCAPE.search(raw_path) is not None:
        raise BadRequest("the request target has an invalid percent-escape")
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        raise BadRequest("the request target is not valid UTF-8") from None
    if _CONTROL.search(path) is not None:
        raise BadRequest("the request target has control characters")
    return path


def _target_fault(target: bytes) -> str:
    if not target.startswith(b"/"):
        return "only origin-form request targets are served"
    if b"#" in target:
        return "the request target has a fragment"
    return "the request target has blanks or control characters"


def _escaped_path(path: bytes) -> bytes:
    return b"".join(b"%c" % byte if byte in _NEVER_ESCAPED else b"%%%02X" % byte for byte in path)
