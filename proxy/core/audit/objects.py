"""Request and response bodies in audit events: parsing, metadata, and what can be recorded.

Only JSON can be recorded. Other encodings cannot be decoded without a schema.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proxy.core.http.headers import Header
from proxy.core.requestinfo.request_info import RequestInfo

_JSON_TYPES = frozenset(
    (
        b"",
        b"application/json",
        b"application/json-patch+json",
        b"application/merge-patch+json",
        b"application/strategic-merge-patch+json",
        # A client may send JSON under this type, as kubectl does.
        b"application/apply-patch+yaml",
    )
)
# kube-apiserver would record the object of a body of these types.
_OTHER_OBJECT_TYPES = (b"protobuf", b"cbor", b"yaml")
_STATUS = re.compile(rb'\s*\{\s*"kind"\s*:\s*"Status"')
_BLANKS = str.maketrans({"\n": None, "\r": None, "\t": None})
_SEPARATORS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})
_SURROGATES = re.compile("[\ud800-\udfff]")
_GZIP_WINDOW = 31
_CONNECTING = frozenset(("attach", "exec", "portforward", "proxy"))
_METADATA_MEMBERS = ("namespace", "name", "uid", "resourceVersion")
_FIRST_FAILURE = 400
_FORBIDDEN, _BAD_REQUEST = 403, 400
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Created once: `json.loads` creates a new decoder for each call with an option.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


class MediaType(NamedTuple):
    """Media type and content encoding of a body."""

    name: bytes
    encoding: bytes

    def __str__(self) -> str:
        names = self.name, self.encoding
        return " ".join(name.decode("latin-1") for name in names if name)

    @property
    def is_json(self) -> bool:
        """Return whether the body can be recorded."""
        return self.name in _JSON_TYPES and self.encoding in (b"", b"gzip")

    @property
    def is_other_object(self) -> bool:
        """Return whether kube-apiserver would record this object although the proxy cannot."""
        return any(encoding in self.name for encoding in _OTHER_OBJECT_TYPES) or bool(self.encoding)


class JSONBody(NamedTuple):
    """A JSON body as sent, and the parsed document."""

    sent: str
    document: object

    @property
    def text(self) -> str:
        """The body as one line. Computed on demand: most bodies are only inspected."""
        # These are never unescaped inside a JSON string, so they only separate tokens.
        return self.sent.translate(_BLANKS).strip(" ").translate(_SEPARATORS)


def media_type(headers: Sequence[Header]) -> MediaType:
    """Return the media type and content encoding that the headers declare."""
    name = encoding = b""
    for key, value in headers:
        lowered = key.lower()
        if lowered == b"content-type":
            name = value.partition(b";")[0].strip().lower()
        elif lowered == b"content-encoding":
            encoding = value.strip().lower()
    return MediaType(name, encoding)


def has_request_object(request_info: RequestInfo) -> bool:
    """Return whether the body of this request is an object or a patch."""
    is_connecting = request_info.verb == "proxy" or request_info.subresource in _CONNECTING
    return request_info.is_resource and not is_connecting


def has_response_object(request_info: RequestInfo, status: int) -> bool:
    """Return whether the response is an object that the API server itself produced."""
    if status >= _FIRST_FAILURE:
        return True
    if not request_info.is_resource:
        return request_info.path == "/api" or request_info.path.startswith(("/api/", "/apis"))
    return (
        has_request_object(request_info)
        and request_info.verb != "watch"
        and request_info.subresource != "log"
    )


def may_be_status(payload: bytes) -> bool:
    """Return whether a response body begins like a Status."""
    return _STATUS.match(payload) is not None


def read_body(raw: bytes, media: MediaType, *, limit: int) -> JSONBody | None:
    """Return a parsed JSON body, or None if it is not JSON or is longer than the limit."""
    if media.encoding == b"gzip":
        unpacked = _unzip(raw, limit)
        if unpacked is None:
            return None
        raw = unpacked
    # Go replaces invalid UTF-8.
    text = raw.decode("utf-8", "replace")
    try:
        document: object = _decode(text)
    except (ValueError, RecursionError):
        return None
    return JSONBody(text, document)


def _unzip(raw: bytes, limit: int) -> bytes | None:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        unpacked = unpacker.decompress(raw, limit)
    except zlib.error:
        return None
    return unpacked if unpacker.eof else None


def without_managed_fields(body: JSONBody) -> str | None:
    """Return the text without managedFields of the object, or of each in a list or table.

    None if the document can be parsed but not encoded: nested too deeply, or a number like 1e999.
    """
    document = body.document
    if '"managedFields"' not in body.sent or not isinstance(document, dict):
        return body.text
    kept = {**document, **_replaced_metadata(document)}
    items, rows = document.get("items"), document.get("rows")
    if isinstance(items, list):
        kept["items"] = [_without_fields(item) for item in items]
    if document.get("kind") == "Table" and isinstance(rows, list):
        kept["rows"] = [_row_without_fields(row) for row in rows]
    try:
        text = _encode(kept)
    except (RecursionError, ValueError):
        return None
    # An escape may be a lone surrogate, which is not valid text. Go replaces it.
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _without_fields(member: object) -> object:
    return {**member, **_replaced_metadata(member)} if isinstance(member, dict) else member


def _row_without_fields(row: object) -> object:
    if not isinstance(row, dict) or "object" not in row:
        return row
    return {**row, "object": _without_fields(row["object"])}


def _replaced_metadata(member: Mapping[str, object]) -> dict[str, object]:
    metadata = member.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {"metadata": kept}


def metadata_of(body: JSONBody | None) -> Mapping[str, str]:
    """Return the identifying metadata of a body."""
    document = body.document if body is not None else None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return {}
    found = {name: metadata.get(name) for name in _METADATA_MEMBERS}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def status_of(body: JSONBody | None) -> Mapping[str, object] | None:
    """Return the document if it is a Status, else None."""
    document = body.document if body is not None else None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return None
    return document


def request_body_was_read(code: int, status: Mapping[str, object] | None) -> bool:
    """Return whether the API server got as far as reading the request body.

    It rejects unauthorized and malformed requests earlier, and its own events then have no body.
    """
    if code < _FIRST_FAILURE:
        return True
    if status is None or code == _BAD_REQUEST:
        return False
    message = status.get("message")
    is_denied = isinstance(message, str) and 'is forbidden: User "' in message
    return not (code == _FORBIDDEN and is_denied)
