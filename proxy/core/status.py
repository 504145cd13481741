"""Refusals as responses: `metav1.Status` bodies, byte for byte as the API server writes them."""

import json
import re
from collections.abc import Sequence

from proxy.core.errors import Refusal
from proxy.core.header_lines import Header
from proxy.core.negotiation import wants_pretty

# Made once: `json.dumps` makes a new encoder for each call that has an option.
# What others sent may hold 1e999, which is read as infinity and is no JSON: that is a ValueError.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_pretty = json.JSONEncoder(ensure_ascii=False, separators=(",", ": "), indent=2).encode

# Go escapes these in JSON, and writes its replacement for what is not text: lone surrogates.
_GO_ESCAPES = tuple((one, f"\\u{ord(one):04x}") for one in "<>&\u2028\u2029")
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_JSON = (b"Content-Type", b"application/json")
_TEXT = (b"Content-Type", b"text/plain; charset=utf-8")
_NOT_STORED = (b"Cache-Control", b"no-cache, private")
_NOT_GUESSED = (b"X-Content-Type-Options", b"nosniff")


def refusal_response(
    refusal: Refusal, request_headers: Sequence[Header], target: bytes, *, audit_id: bytes
) -> tuple[list[Header], bytes]:
    """Return the headers (without framing) and the body that tell a client of a refusal."""
    headers = [(b"Audit-Id", audit_id)]
    if refusal.is_plain_text:
        body = f"{without_html(refusal.message)}\n".encode("utf-8", "surrogateescape")
        return [*headers, _TEXT, _NOT_GUESSED], body
    headers += [_NOT_STORED, _JSON]
    if refusal.forbids_guessing:
        headers.append(_NOT_GUESSED)
    if refusal.retry_after_seconds is not None:
        headers.append((b"Retry-After", b"%d" % refusal.retry_after_seconds))
    query = target.partition(b"?")[2]
    return headers, status_body(refusal, pretty=wants_pretty(request_headers, query))


def status_body(refusal: Refusal, *, pretty: bool = False) -> bytes:
    """Return the JSON of a refusal: compact with a final newline, or indented without one."""
    document: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refusal.message,
        "reason": refusal.reason,
    }
    details: dict[str, object] = dict(refusal.details or {})
    if refusal.retry_after_seconds is not None:
        details["retryAfterSeconds"] = refusal.retry_after_seconds
    if details or refusal.details is not None:
        document["details"] = details
    document["code"] = refusal.code
    text = go_json(document, pretty=pretty)
    return text.encode() if pretty else text.encode() + b"\n"


def go_json(document: object, *, pretty: bool = False) -> str:
    """Return JSON as Go writes it, on one line or indented."""
    text = _pretty(document) if pretty else _compact(document)
    if text.isascii() and not ("<" in text or ">" in text or "&" in text):
        return text  # nearly always, and seen faster than by any pattern
    for character, escape in _GO_ESCAPES:
        # Not by a pattern, which takes a microsecond for each of them.
        text = text.replace(character, escape)
    return text if text.isascii() else _NOT_TEXT.sub(r"\\ufffd", text)


def without_html(text: str) -> str:
    """Return a text that no browser takes for markup, as the API server does it."""
    return text.translate(_HTML_ESCAPES)
