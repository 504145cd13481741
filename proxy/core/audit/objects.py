"""Bodies for audit events: what of them can be recorded, and what they tell besides.

Only JSON can be: other encodings need a schema to be read.
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
        # A client may apply what is YAML by name and JSON in fact, as kubectl does.
        b"application/apply-patch+yaml",
    )
)
# Of these the API server would have recorded the object.
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


# Made once: `json.loads` makes a new decoder for each call that has an option.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


class MediaType(NamedTuple):
    """How a body is written down."""

    name: bytes
    encoding: bytes

    def __str__(self) -> str:
        names = self.name, self.encoding
        return " ".join(name.decode("latin-1") for name in names if name)

    @property
    def is_json(self) -> bool:
        """Tell whether the body can be recorded."""
        return self.name in _JSON_TYPES and self.encoding in (b"", b"gzip")

    @property
    def is_other_object(self) -> bool:
        """Tell whether an object is lost to the record that the API server would have recorded."""
        return any(word in self.name for word in _OTHER_OBJECT_TYPES) or bool(self.encoding)


class JSONBody(NamedTuple):
    """A body of JSON as it was sent, and what it says."""

    sent: str
    document: object

    @property
    def text(self) -> str:
        """The body as one line; most are only looked at, and never written down."""
        # Inside strings JSON has none of these as they are, so they only part its tokens.
        return self.sent.translate(_BLANKS).strip(" ").translate(_SEPARATORS)


def media_type(headers: Sequence[Header]) -> MediaType:
    """Return how a body is written down, by its headers."""
    name = encoding = b""
    for key, value in headers:
        lowered = key.lower()
        if lowered == b"content-type":
            name = value.partition(b";")[0].strip().lower()
        elif lowered == b"content-encoding":
            encoding = value.strip().lower()
    return MediaType(name, encoding)


def has_request_object(request_info: RequestInfo) -> bool:
    """Tell whether a body of this request would be an object or a patch."""
    is_connecting = request_info.verb == "proxy" or request_info.subresource in _CONNECTING
    return request_info.is_resource and not is_connecting


def has_response_object(request_info: RequestInfo, status: int) -> bool:
    """Tell whether an answer to this request is an object that the API server itself has made."""
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
    """Tell whether an answer begins as a Status does."""
    return _STATUS.match(payload) is not None


def read_body(raw: bytes, media: MediaType, *, limit: int) -> JSONBody | None:
    """Return a body of JSON, or None if it is none or longer than the limit."""
    if media.encoding == b"gzip":
        unpacked = _unzip(raw, limit)
        if unpacked is None:
            return None
        raw = unpacked
    # Go replaces what is not text.
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
    """Return the text without managedFields: of the object, or of each in a list or table.

    None for what can be read and not be written: nested too deep, or with a number like 1e999.
    """
    document = body.document
    if '"managedFields"' not in body.sent or not isinstance(document, dict):
        return body.text
    kept = {**document, **_replaced_metadata(document)}
    items, rows = document.get("items"), document.get("rows")
    if isinstance(items, list):
        kept["items"] = [_without(item) for item in items]
    if document.get("kind") == "Table" and isinstance(rows, list):
        kept["rows"] = [_row_without(row) for row in rows]
    try:
        text = _encode(kept)
    except (RecursionError, ValueError):
        return None
    # An escape may stand for half a character, which is no text; Go replaces it.
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _without(member: object) -> object:
    return {**member, **_replaced_metadata(member)} if isinstance(member, dict) else member


def _row_without(row: object) -> object:
    if not isinstance(row, dict) or "object" not in row:
        return row
    return {**row, "object": _without(row["object"])}


def _replaced_metadata(member: Mapping[str, object]) -> dict[str, object]:
    metadata = member.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {"metadata": kept}


def metadata_of(body: JSONBody | None) -> Mapping[str, str]:
    """Return what a body says about which object it is."""
    document = body.document if body is not None else None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return {}
    found = {name: metadata.get(name) for name in _METADATA_MEMBERS}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def status_of(body: JSONBody | None) -> Mapping[str, object] | None:
    """Return a body that is a Status, or None."""
    document = body.document if body is not None else None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return None
    return document


def request_body_was_read(code: int, status: Mapping[str, object] | None) -> bool:
    """Tell whether the API server had come so far as to read the request's body.

    What it refuses before that leaves no body in its events either: whoever may not do it, and
    what cannot be understood.
    """
    if code < _FIRST_FAILURE:
        return True
    if status is None or code == _BAD_REQUEST:
        return False
    message = status.get("message")
    is_denied = isinstance(message, str) and 'is forbidden: User "' in message
    return not (code == _FORBIDDEN and is_denied)
