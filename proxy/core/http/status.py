"""Status errors as responses: `metav1.Status` bodies, byte for byte as kube-apiserver's."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.core.errors import StatusError
from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.url import QueryParameter, first_value
from proxy.core.http.headers import Header

_INTERACTIVE_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SERVED_SUBTYPES = ("json", "yaml", "vnd.kubernetes.protobuf")
_STREAMED_SUBTYPES = frozenset({"json", "vnd.kubernetes.protobuf"})
# No two quantifiers can match the same digit, so it never backtracks.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CONVERSIONS = frozenset({"as", "g", "v"})
_PRETTY = QueryParameter("pretty")
# Go sorts up to twelve elements by insertion. Beyond that the order depends on its algorithm,
# because the comparison is not a total order. kubectl sends three, browsers up to ten.
_MAX_CLAUSES = 12
_MAX_ACCEPT_LENGTH = 2048
# The default limit on targets. A longer one is rejected, and its error response is built here.
_MAX_QUERY_BYTES = 64 * 1024


@dataclass(slots=True)
class _Clause:
    """One alternative of an Accept header."""

    type: str
    subtype: str
    quality: float = 1.0
    parameters: dict[str, str] = field(default_factory=dict)


def wants_pretty(headers: Sequence[Header], query: bytes) -> bool:
    """Return whether kube-apiserver would indent its JSON for this request."""
    accept = _first_header(headers, b"accept")
    if accept and len(accept) <= _MAX_ACCEPT_LENGTH and accept.count(",") < _MAX_CLAUSES:
        clause = _select_clause(accept)
        if clause is None or clause.parameters.get("pretty") == "1":
            return True
    if len(query) <= _MAX_QUERY_BYTES and b"pretty" in query:
        pretty = first_value(query, _PRETTY)
        if pretty:
            return pretty in _TRUE
    return _first_header(headers, b"user-agent").startswith(_INTERACTIVE_AGENTS)


def _first_header(headers: Sequence[Header], wanted: bytes) -> str:
    length = len(wanted)
    for name, value in headers:
        if len(name) == length and name.lower() == wanted:
            return value.decode("latin-1")
    return ""


def _select_clause(accept: str) -> _Clause | None:
    """Return the alternative that kube-apiserver selects, or None if it can serve none."""
    for clause in _sorted([c for c in map(_parse_clause, _split(accept, ",")) if c is not None]):
        if any(_serves(clause, subtype) for subtype in _SERVED_SUBTYPES):
            return clause
    return None


def _serves(clause: _Clause, subtype: str) -> bool:
    is_named = clause.type == "application" and clause.subtype in {subtype, "*"}
    if not is_named and (clause.type, clause.subtype) != ("*", "*"):
        return False
    parameters = clause.parameters
    if parameters.get("sv") or not _CONVERSIONS.isdisjoint(parameters):
        return False
    stream = parameters.get("stream", "")
    return stream == "" or (stream == "watch" and subtype in _STREAMED_SUBTYPES)


def _parse_clause(text: str) -> _Clause | None:
    media_type, *parameters = _split(text.strip(" "), ";") or [""]
    kind, *subtypes = _split(media_type, "/") or [""]
    clause = _Clause(kind.strip(" "), subtypes[0].strip(" ") if subtypes else "*")
    if len(subtypes) > 1 or (not subtypes and clause.type != "*"):
        return None
    for parameter in parameters:
        key, *values = _split(parameter, "=") or [""]
        if len(values) != 1:
            continue
        if key.strip(" ") == "q":
            clause.quality = _parse_quality(values[0])
        else:
            clause.parameters[key.strip(" ")] = values[0].strip(" ")
    return clause


def _split(text: str, separator: str) -> list[str]:
    """Split as kube-apiserver does: an empty text after the last separator is no element."""
    elements = text.split(separator)
    return elements[:-1] if elements[-1] == "" else elements


def _parse_quality(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) is not None else 0.0


def _sorted(clauses: list[_Clause]) -> list[_Clause]:
    """Sort by insertion, as Go does for twelve or fewer: the comparison is not a total order."""
    for index in range(1, len(clauses)):
        position = index
        while position > 0 and _is_before(clauses[position], clauses[position - 1]):
            clauses[position - 1 : position + 1] = clauses[position - 1 : position + 1][::-1]
            position -= 1
    return clauses


def _is_before(clause: _Clause, other: _Clause) -> bool:
    if clause.quality > other.quality:
        return True
    if clause.type != "*" and other.type == "*":
        return True
    return clause.subtype != "*" and other.subtype == "*"


# client-go drops the rest of a longer header.
_MAX_WARNING_LENGTH = 512
_HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_JSON = (b"Content-Type", b"application/json")
_TEXT = (b"Content-Type", b"text/plain; charset=utf-8")
_NO_CACHE = (b"Cache-Control", b"no-cache, private")
_NO_SNIFF = (b"X-Content-Type-Options", b"nosniff")


def status_response(
    error: StatusError, request_headers: Sequence[Header], target: bytes, *, audit_id: bytes
) -> tuple[list[Header], bytes]:
    """Return the headers (without framing) and the body of an error response."""
    headers = [(b"Audit-Id", audit_id)]
    if error.is_plain_text:
        body = f"{escape_html(error.message)}\n".encode("utf-8", "surrogateescape")
        return [*headers, _TEXT, _NO_SNIFF], body
    headers += [_NO_CACHE, _JSON]
    if error.sends_nosniff:
        headers.append(_NO_SNIFF)
    if error.retry_after_seconds is not None:
        headers.append((b"Retry-After", b"%d" % error.retry_after_seconds))
    if error.warning:
        headers.append(_warning_header(error.warning, audit_id))
    query = target.partition(b"?")[2]
    return headers, status_body(error, pretty=wants_pretty(request_headers, query))


def _warning_header(text: str, audit_id: bytes) -> Header:
    # Names in the text are untrusted: only printable ASCII, and quoted as a quoted-string.
    shown = "".join(
        letter if " " <= letter <= "~" else "?" for letter in text[:_MAX_WARNING_LENGTH]
    )
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"').encode()
    return b"Warning", b'299 - "understudy: %b; Audit-Id %b"' % (quoted, audit_id)


def status_body(error: StatusError, *, pretty: bool = False) -> bytes:
    """Return the JSON of a status error: compact with a newline, or indented without one."""
    document: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
    }
    details: dict[str, object] = dict(error.details or {})
    if error.retry_after_seconds is not None:
        details["retryAfterSeconds"] = error.retry_after_seconds
    if details or error.details is not None:
        document["details"] = details
    document["code"] = error.code
    text = go_json(document, pretty=pretty)
    return text.encode() if pretty else text.encode() + b"\n"


def escape_html(text: str) -> str:
    """Return a text with HTML characters escaped, as kube-apiserver does."""
    return text.translate(_HTML_ESCAPES)
