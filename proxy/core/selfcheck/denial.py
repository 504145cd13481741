"""Denials by the API server that concern the proxy's own user, not the impersonated one.

Every forwarded request impersonates a user, and the message of a denial names the denied user. If
that is the proxy's own user, the API server denied the impersonation. The proxy then lacks a
permission, and no client can fix that.

The text alone proves nothing. Kubelets, proxied applications and aggregated servers also respond
through the API server and can write the same text.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from proxy.core.gocompat.quote import go_quote
from proxy.core.http.status import escape_html
from proxy.core.requestinfo.request_info import RequestInfo

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# These are only searched as text: their clients are interactive, or ahead of common use.
YAML, CBOR = "application/yaml", "application/cbor"

_PROTOBUF_MAGIC = b"k8s\x00"
# The start of the API server's own Status without whitespace, so JSON may be compact or indented.
_STATUS_STARTS = {
    JSON: b'{"kind":"Status"',
    PROTOBUF: _PROTOBUF_MAGIC,
    YAML: b"apiVersion:v1code:403",
    CBOR: b"\xd9\xd9\xf7",
}
DENIAL_TYPES = frozenset(_STATUS_STARTS)
# The groups that kube-apiserver serves itself. An aggregated server may serve any other; a request
# does not show whether one does.
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
# Subresources to which a kubelet or a proxied application responds.
_CONNECTED_SUBRESOURCES = frozenset(("attach", "exec", "log", "portforward", "proxy"))
_PLAIN_KIND = re.compile(r"[a-z0-9.-]*")
MAX_START_BYTES = 64
_NO_MATCH = "\n"
_DENIAL_TEXT = "forbidden: User "
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BITS = 63
# A Status and its details have seven fields each.
_MAX_FIELDS = 64
# Fields of runtime.Unknown, metav1.Status and metav1.StatusDetails, by their numbers.
_TYPE_META, _RAW, _KIND = 1, 2, 2
_MESSAGE, _REASON, _DETAILS, _CODE = 3, 4, 5, 6
_DETAILS_NAME, _DETAILS_GROUP, _DETAILS_KIND = 1, 2, 3
_FORBIDDEN_CODE = 403
_PERMISSION = re.compile(
    r'cannot (\S+ (?:resource "(?:[^"\\]|\\.)*" in API group "(?:[^"\\]|\\.)*"'
    r'(?: in the namespace "(?:[^"\\]|\\.)*"| at the cluster scope)|path "(?:[^"\\]|\\.)*"))'
)


@dataclass(frozen=True, slots=True)
class ForbiddenStatus:
    """The content of a Status with code 403.

    Without `is_parsed`, the body was only searched as text. It then contains the message somewhere,
    and a client may have chosen it.
    """

    message: str
    name: str = ""
    group: str = ""
    kind: str = ""
    is_parsed: bool = True


def parse_denial(media_type: str, body: bytes) -> ForbiddenStatus | None:
    """Parse a complete body as a denial, or return None if it is none."""
    try:
        if media_type == JSON:
            return _parse_json(body)
        if media_type == PROTOBUF:
            return _parse_protobuf(body)
    except (ValueError, IndexError, RecursionError):
        return None  # Malformed for its media type, so not written by the API server itself.
    return _search_text(body)


def may_become_denial(media_type: str, start: bytes) -> bool:
    """Return whether a body with this start may be the API server's own Status."""
    expected = _STATUS_STARTS[media_type]
    return expected.startswith(b"".join(start[:MAX_START_BYTES].split())[: len(expected)])


def is_from_api_server(request_info: RequestInfo, *, is_upgrade: bool) -> bool:
    """Return whether only the API server itself can have responded to a request.

    True only for objects that it stores itself. In doubt it is False.
    """
    return (
        request_info.is_resource
        and not is_upgrade
        and request_info.group in _BUILT_IN_GROUPS
        and request_info.verb != "proxy"
        and request_info.subresource not in _CONNECTED_SUBRESOURCES
    )


def missing_permission(denial: ForbiddenStatus, proxy_usernames: Collection[str]) -> str | None:
    """Return the missing permission, in the API server's text, if a denial names a proxy user.

    The message must be exactly the one that the API server builds from the details. So no text
    that a client can choose (such as an object name) is mistaken for the name of the denied user.
    """
    for own_name in proxy_usernames:
        user = escape_html(f"User {go_quote(own_name)} ")
        start = f"{_prefix(denial)}forbidden: {user}"
        if denial.message.startswith(start):
            permission = _PERMISSION.match(denial.message, len(start))
            return _unrestricted(permission[1]) if permission else "do that"
    return None


def _unrestricted(permission: str) -> str:
    """Return the permission that the proxy would need.

    API servers with constrained modes evaluate those first and report the first failure of all.
    The proxy needs none of them. It lacks the unrestricted verb for some part of the user.
    """
    if permission.startswith(("impersonate:", "impersonate-on:")):
        return f"impersonate all of this identity (the API server reports first: {permission})"
    return permission


def _prefix(denial: ForbiddenStatus) -> str:
    if not denial.kind and not denial.group:
        return ""
    if not (_PLAIN_KIND.fullmatch(denial.kind) and _PLAIN_KIND.fullmatch(denial.group)):
        # An admission webhook chooses its details, and part of the message after its own name.
        return _NO_MATCH
    resource = f"{denial.kind}.{denial.group}" if denial.group else denial.kind
    return f"{resource} {go_quote(denial.name)} is " if denial.name else f"{resource} is "


def _search_text(body: bytes) -> ForbiddenStatus | None:
    # Names that a client chose precede the last such sentence, and quotes in it are escaped.
    text = b" ".join(body.split()).decode(errors="replace")
    start = text.rfind(_DENIAL_TEXT)
    return ForbiddenStatus(text[start:], is_parsed=False) if start >= 0 else None


def _parse_json(body: bytes) -> ForbiddenStatus | None:
    status = json.loads(body)
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return None
    if status.get("code") != _FORBIDDEN_CODE or status.get("reason") != "Forbidden":
        return None
    details = status.get("details")
    fields = details if isinstance(details, dict) else {}
    texts = [status.get("message"), *(fields.get(key, "") for key in ("name", "group", "kind"))]
    if not all(isinstance(text, str) for text in texts):
        return None
    message, name, group, kind = map(str, texts)
    return ForbiddenStatus(message, name, group, kind)


def _parse_protobuf(body: bytes) -> ForbiddenStatus | None:
    if not body.startswith(_PROTOBUF_MAGIC):
        return None
    envelope = _parse_fields(body[len(_PROTOBUF_MAGIC) :])
    if _text(_submessage(envelope, _TYPE_META), _KIND) != "Status":
        return None
    status = _submessage(envelope, _RAW)
    if status.get(_CODE) != _FORBIDDEN_CODE or _text(status, _REASON) != "Forbidden":
        return None
    details = _submessage(status, _DETAILS)
    return ForbiddenStatus(
        _text(status, _MESSAGE),
        _text(details, _DETAILS_NAME),
        _text(details, _DETAILS_GROUP),
        _text(details, _DETAILS_KIND),
    )


_Fields = dict[int, bytes | int]


def _submessage(fields: _Fields, number: int) -> _Fields:
    value = fields.get(number, b"")
    return _parse_fields(value) if isinstance(value, bytes) else {}


def _text(fields: _Fields, number: int) -> str:
    value = fields.get(number, b"")
    return value.decode() if isinstance(value, bytes) else ""


def _parse_fields(message: bytes) -> _Fields:
    """Parse the last value of each field; raise ValueError or IndexError if malformed."""
    fields: _Fields = {}
    position = 0
    for _ in range(_MAX_FIELDS):
        if position >= len(message):
            return fields
        tag, position = _parse_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            fields[tag >> 3], position = _parse_varint(message, position)
            continue
        if kind == _BYTES:
            size, position = _parse_varint(message, position)
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
        else:
            raise ValueError("unknown wire type")
        if position + size > len(message):
            raise ValueError("a field is truncated")
        fields[tag >> 3] = message[position : position + size]
        position += size
    raise ValueError("too many fields for a message of the API server")


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
            return value, position
        shift += 7
        if shift > _MAX_VARINT_BITS:
            raise ValueError("a number is too long")
