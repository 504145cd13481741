"""A denial of the API server that is about ourselves, not about whom we speak for.

Every request we forward carries an identity, and whoever is denied something is named in the
message. If that is us, the API server did not let us take that identity: a right of ours is
missing, and no client can do anything about it.

The words prove nothing by themselves. Kubelets, proxied applications and aggregated servers answer
through the API server, too, and can write the same ones.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from proxy.core.gocompat.quote import go_quote
from proxy.core.http.status import without_html
from proxy.core.requestinfo.request_info import RequestInfo

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
# The groups that kube-apiserver serves itself. Any other may be an aggregated server's: whether it
# is cannot be seen from a request.
_BUILT_IN_GROUPS = frozenset(
    (
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    )
)
# What a kubelet or a proxied application answers.
_CONNECTED_SUBRESOURCES = frozenset(("attach", "exec", "log", "portforward", "proxy"))
_PLAIN_KIND = re.compile(r"[a-z0-9.-]*")
LONGEST_START = 64
_NEVER = "\n"
_SENTENCE = "forbidden: User "
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BITS = 63
# A Status and its details have seven each.
_MOST_FIELDS = 64
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
class ForbiddenStatus:
    """What a Status of code 403 says.

    Of a text that was only searched, and not parsed, nothing is known but that it has the message
    somewhere: a client may have chosen it.
    """

    message: str
    name: str = ""
    group: str = ""
    kind: str = ""
    is_parsed: bool = True


def read_denial(media_type: str, body: bytes) -> ForbiddenStatus | None:
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


def is_from_api_server(request_info: RequestInfo, *, is_upgrade: bool) -> bool:
    """Return whether nothing but the API server itself can have answered a request.

    That is so for objects that it stores itself. In doubt it is not.
    """
    return (
        request_info.is_resource
        and not is_upgrade
        and request_info.group in _BUILT_IN_GROUPS
        and request_info.verb != "proxy"
        and request_info.subresource not in _CONNECTED_SUBRESOURCES
    )


def missing_permission(denial: ForbiddenStatus, own_names: Collection[str]) -> str | None:
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


def _prefix(denial: ForbiddenStatus) -> str:
    if not denial.kind and not denial.group:
        return ""
    if not (_PLAIN_KIND.fullmatch(denial.kind) and _PLAIN_KIND.fullmatch(denial.group)):
        # An admission webhook chooses its details, and some of the message behind its own name.
        return _NEVER
    resource = f"{denial.kind}.{denial.group}" if denial.group else denial.kind
    return f"{resource} {go_quote(denial.name)} is " if denial.name else f"{resource} is "


def _read_text(body: bytes) -> ForbiddenStatus | None:
    # Names that a client chose come before the last such sentence, and quotes are escaped in it.
    text = b" ".join(body.split()).decode(errors="replace")
    start = text.rfind(_SENTENCE)
    return ForbiddenStatus(text[start:], is_parsed=False) if start >= 0 else None


def _read_json(body: bytes) -> ForbiddenStatus | None:
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
    message, name, group, kind = map(str, texts)
    return ForbiddenStatus(message, name, group, kind)


def _read_protobuf(body: bytes) -> ForbiddenStatus | None:
    if not body.startswith(_PROTOBUF_MARK):
        return None
    envelope = _fields(body[len(_PROTOBUF_MARK) :])
    if _text(_message(envelope, _TYPE_META), _KIND) != "Status":
        return None
    status = _message(envelope, _RAW)
    if status.get(_CODE) != _FORBIDDEN_CODE or _text(status, _REASON) != "Forbidden":
        return None
    details = _message(status, _DETAILS)
    return ForbiddenStatus(
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
    for _ in range(_MOST_FIELDS):
        if position >= len(message):
            return fields
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
    raise ValueError("too many fields for a message of the API server")


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
