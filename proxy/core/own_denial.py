"""A denial of the API server that is about ourselves, not about whom we speak for.

Every request we forward carries an identity, and whoever is denied something is named in the
message. If that is us, the API server did not let us take that identity: a right of ours is
missing, and no client can do anything about it.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from proxy.core.go_quote import go_quote
from proxy.core.status import without_html

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# Of these only the text is looked at: who asks for them is a person, or ahead of the time.
YAML, CBOR = "application/yaml", "application/cbor"

_PROTOBUF_MARK = b"k8s\x00"
# How the API server's own Status begins, blanks left out; for JSON compact or indented.
_STARTS = {
    JSON: b'{"kind":"Status"',
    PROTOBUF: _PROTOBUF_MARK,
    YAML: b"apiVersion:v1code:403",
    CBOR: b"\xd9\xd9\xf7",
}
DENIAL_TYPES = frozenset(_STARTS)
LONGEST_START = 64
_SENTENCE = "forbidden: User "
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BITS = 63
# Fields of runtime.Unknown, metav1.Status and metav1.StatusDetails, by their numbers.
_TYPE_META, _RAW, _KIND = 1, 2, 2
_MESSAGE, _REASON, _DETAILS, _CODE = 3, 4, 5, 6
_DETAILS_NAME, _DETAILS_GROUP, _DETAILS_KIND = 1, 2, 3
_FORBIDDEN_CODE = 403
_RIGHT = re.compile(
    r'cannot (\S+ (?:resource "(?:[^"\\]|\\.)*" in API group "(?:[^"\\]|\\.)*"'
    r'(?: in the namespace "(?:[^"\\]|\\.)*"| at the cluster scope)|path "(?:[^"\\]|\\.)*"))'
)


@dataclass(frozen=True, slots=True)
class Denial:
    """What a Status of code 403 says."""

    message: str
    name: str = ""
    group: str = ""
    kind: str = ""


def read_denial(media_type: str, body: bytes) -> Denial | None:
    """Return the denial that a whole body is, or None when it is something else."""
    try:
        if media_type == JSON:
            return _read_json(body)
        if media_type == PROTOBUF:
            return _read_protobuf(body)
    except (ValueError, IndexError, RecursionError):
        return None  # Not what it says it is, so not the API server's own word.
    return _read_text(body)


def may_become_denial(media_type: str, start: bytes) -> bool:
    """Tell whether a body that starts so may be the API server's own Status."""
    expected = _STARTS[media_type]
    return expected.startswith(b"".join(start[:LONGEST_START].split())[: len(expected)])


def missing_right(denial: Denial, own_names: Collection[str]) -> str | None:
    """Return what we may not do, in the API server's words, if the denial is about one of us.

    The message must be exactly the one that the API server makes of its details: nothing that a
    client can choose (a name of an object, say) is taken for the name of who was denied.
    """
    for own_name in own_names:
        who = without_html(f"User {go_quote(own_name)} ")
        start = f"{_prefix(denial)}forbidden: {who}"
        if denial.message.startswith(start):
            right = _RIGHT.match(denial.message, len(start))
            return _unrestricted(right[1]) if right else "do that"
    return None


def _unrestricted(right: str) -> str:
    """Return a right that would help us.

    Servers that know the constrained modes try those first, and tell the first failure of all. We
    need none of them: what is missing is the unrestricted verb, for some part of the identity.
    """
    if right.startswith(("impersonate:", "impersonate-on:")):
        return f"impersonate all of this identity (the API server names first: {right})"
    return right


def _prefix(denial: Denial) -> str:
    if not denial.kind and not denial.group:
        return ""
    resource = f"{denial.kind}.{denial.group}" if denial.group else denial.kind
    return f"{resource} {go_quote(denial.name)} is " if denial.name else f"{resource} is "


def _read_text(body: bytes) -> Denial | None:
    # Names that a client chose come before the last such sentence, and quotes are escaped in it.
    text = b" ".join(body.split()).decode(errors="replace")
    start = text.rfind(_SENTENCE)
    return Denial(text[start:]) if start >= 0 else None


def _read_json(body: bytes) -> Denial | None:
    status = json.loads(body)
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return None
    if status.get("code") != _FORBIDDEN_CODE or status.get("reason") != "Forbidden":
        return None
    details = status.get("details")
    told = details if isinstance(details, dict) else {}
    texts = [status.get("message"), *(told.get(key, "") for key in ("name", "group", "kind"))]
    if not all(isinstance(text, str) for text in texts):
        return None
    return Denial(*(str(text) for text in texts))


def _read_protobuf(body: bytes) -> Denial | None:
    if not body.startswith(_PROTOBUF_MARK):
        return None
    envelope = _fields(body[len(_PROTOBUF_MARK) :])
    if _text(_message(envelope, _TYPE_META), _KIND) != "Status":
        return None
    status = _message(envelope, _RAW)
    if status.get(_CODE) != _FORBIDDEN_CODE or _text(status, _REASON) != "Forbidden":
        return None
    details = _message(status, _DETAILS)
    return Denial(
        _text(status, _MESSAGE),
        _text(details, _DETAILS_NAME),
        _text(details, _DETAILS_GROUP),
        _text(details, _DETAILS_KIND),
    )


_Fields = dict[int, bytes | int]


def _message(fields: _Fields, number: int) -> _Fields:
    value = fields.get(number, b"")
    return _fields(value) if isinstance(value, bytes) else {}


def _text(fields: _Fields, number: int) -> str:
    value = fields.get(number, b"")
    return value.decode() if isinstance(value, bytes) else ""


def _fields(message: bytes) -> _Fields:
    """Return the last value of each field; ValueError or IndexError for what is no message."""
    fields: _Fields = {}
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            fields[tag >> 3], position = _varint(message, position)
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
        else:
            raise ValueError("not a field of a message")
        if position + size > len(message):
            raise ValueError("a field is cut off")
        fields[tag >> 3] = message[position : position + size]
        position += size
    return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
            return value, position
        shift += 7
        if shift > _MOST_VARINT_BITS:
            raise ValueError("a number is too long")
