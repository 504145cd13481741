"""Audit events (`audit.k8s.io/v1`) as lines of JSON.

Fields and their order are kube-apiserver's. An event is assembled from fragments that are JSON
already. Most fragments are the same for many requests, and `fragments.py` caches those.
`event_line` is the only function that assembles them.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from enum import StrEnum

from proxy.core.audit.limits import (
    AGENT_BYTES,
    NAME_BYTES,
    OBJECT_BYTES,
    WRITTEN_AGENT_BYTES,
)
from proxy.core.audit.users import user_text
from proxy.core.errors import StatusError
from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.gocompat.url import request_uri
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.truncation import (
    NO_TRUNCATED_VALUES,
    BoundedText,
    encoded_size,
    json_size,
    longest_prefix,
    truncate_to_size,
    truncated_value,
)

_MAX_ADDRESS_LENGTH = 64
_NOTHING_SENT = {"status": "Success", "message": "Connection closed early"}
_OK = 200
_MILLISECOND = 1000
_SECOND = 1_000_000
_STATUS_MEMBERS = ("status", "message", "reason", "details")
_DETAILS_MEMBERS = ("name", "group", "kind", "uid")
_MAX_RETRY_SECONDS = 1 << 31
_QUOTES = 2


class InvalidAuditEvent(ValueError):
    """An input is not an audit event, or has no request that can be evaluated."""


class Stage(StrEnum):
    """Processing stage of a request at which an event is written."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"


PLACEHOLDER = "\0"
"""Stands for a value in a template. No value contains it, because JSON escapes it."""


def event_line(
    level: str,
    audit_id: str,
    stage: str,
    *,
    members: str,
    timestamps: tuple[str, str],
    annotations: str,
) -> str:
    """Return an event as one line of an audit log. `stage` is the text of a `Stage`.

    `audit_id` is a JSON value. `members` are request URI, verb and user, and what else is known:
    impersonated user, origin, object reference, response status and bodies. Each optional part
    starts with its comma, or is empty.
    """
    received_at, stage_at = timestamps
    # An f-string takes half the time of a format string for so many values.
    return (
        f'{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"{level}","auditID":{audit_id},'
        f'"stage":"{stage}",{members},"requestReceivedTimestamp":"{received_at}",'
        f'"stageTimestamp":"{stage_at}"{annotations}}}\n'
    )


def request_text(
    request_info: RequestInfo | None, method: bytes, target: bytes, *, max_bytes: int
) -> BoundedText:
    """Return the request URI as Go formats it, truncated to `most` bytes, and the verb."""
    return _request_members(request_info, method, request_uri(target), max_bytes)


def unauthenticated_request_text(
    request_info: RequestInfo | None, method: bytes, target: bytes, *, max_bytes: int
) -> BoundedText:
    """Return the same for an unauthenticated request.

    The path of a truncated target is not escaped again. No other log has it for comparison, and
    escaping is the most expensive step for such a request.
    """
    is_long = len(target) > max_bytes
    uri = target.decode("utf-8", "surrogateescape") if is_long else request_uri(target)
    return _request_members(request_info, method, uri, max_bytes)


def _request_members(
    request_info: RequestInfo | None, method: bytes, uri: str, most: int
) -> BoundedText:
    verb = method.decode("ascii").lower() if request_info is None else request_info.verb
    if len(uri) <= most:  # A URI that cannot fit is not encoded whole.
        text = go_json(uri)
        if encoded_size(text) <= most + _QUOTES:
            return BoundedText(f'"requestURI":{text},"verb":{quoted(verb)}')
    text = go_json(truncate_to_size(uri, most))
    return BoundedText(
        f'"requestURI":{text},"verb":{quoted(verb)}', (truncated_value("requestURI", uri),)
    )


def decision_text(permit: Permit | None, *, max_bytes: int) -> BoundedText:
    """Return the impersonated user and the constraint, or nothing without impersonation."""
    if permit is None or permit.mode is None:
        return BoundedText("")
    user, cuts = user_text(permit.user, path="impersonatedUser", max_bytes=max_bytes)
    text = f',"impersonatedUser":{user}'
    if permit.constraint is None:
        return BoundedText(text, cuts)
    constraint = go_json({"impersonationConstraint": permit.constraint})
    return BoundedText(f'{text},"authenticationMetadata":{constraint}', cuts)


def origin_text(addresses: Sequence[str], agent: bytes) -> str:
    """Return the source addresses and the user agent."""
    text = f',"sourceIPs":{go_json(list(addresses))}' if addresses else ""
    return f'{text},"userAgent":{go_json(_user_agent(agent))}' if agent else text


def object_text(
    request_info: RequestInfo | None, metadata: Mapping[str, str] | None = None
) -> BoundedText:
    """Return the object reference. The body's metadata fills in what the target leaves out."""
    if request_info is None or not request_info.is_resource:
        return BoundedText("")
    known = metadata or {}
    reference = {
        "resource": request_info.resource,
        "namespace": request_info.namespace or known.get("namespace", ""),
        "name": request_info.name or known.get("name", ""),
        "uid": known.get("uid", ""),
        "apiGroup": request_info.group,
        "apiVersion": request_info.version,
        "resourceVersion": known.get("resourceVersion", ""),
        "subresource": request_info.subresource,
    }
    # An encoder of whole objects takes three times as long for a few short strings.
    members = [f'"{name}":{quoted(value)}' for name, value in reference.items() if value]
    text = f"{{{','.join(members)}}}"
    if encoded_size(text) <= OBJECT_BYTES:
        return BoundedText(f',"objectRef":{text}')
    short = go_json({name: _truncate_name(value) for name, value in reference.items() if value})
    return BoundedText(f',"objectRef":{short}', (truncated_value("objectRef", text),))


def response_text(
    code: int,
    error: StatusError | None = None,
    status: Mapping[str, object] | None = None,
    *,
    max_bytes: int,
) -> BoundedText:
    """Return the response status: the proxy's error, the API server's Status, or the code alone.

    Code 0 means that no response was sent. kube-apiserver has a fixed status for this case.
    """
    if error is not None and not error.is_plain_text:
        members: dict[str, object] = {
            "status": "Failure",
            "message": error.message,
            "reason": error.reason,
        }
        details: dict[str, object] = dict(error.details or {})
        if error.retry_after_seconds is not None:
            details["retryAfterSeconds"] = error.retry_after_seconds
        if details or error.details is not None:
            members["details"] = details
        return _response(code or error.code, members, max_bytes)
    if code == 0:
        return _response(_OK, _NOTHING_SENT, max_bytes)
    if status is None:
        return BoundedText(plain_response_text(code))
    return _response(
        code, {name: status[name] for name in _STATUS_MEMBERS if name in status}, max_bytes
    )


def plain_response_text(code: int | str) -> str:
    """Return the response status of a response without a Status; the code may be a placeholder."""
    return f',"responseStatus":{{"metadata":{{}},"code":{code}}}'


def _response(code: int, members: Mapping[str, object], most: int) -> BoundedText:
    text, cuts = _encode({"metadata": {}, **members, "code": code}), NO_TRUNCATED_VALUES
    if not text or encoded_size(text) > most:
        cuts = (truncated_value("responseStatus", text),)
        text = go_json({"metadata": {}, **_short_status(members, most), "code": code})
    return BoundedText(f',"responseStatus":{text}', cuts)


def _encode(document: Mapping[str, object]) -> str:
    """Return JSON, or an empty string if nested too deeply or with a number like 1e999."""
    try:
        return go_json(document)
    except (RecursionError, ValueError):
        return ""


def _short_status(members: Mapping[str, object], most: int) -> dict[str, object]:
    """Return the string members of a Status, truncated. A backend may have sent anything."""
    kept: dict[str, object] = {}
    for name, value in members.items():
        if isinstance(value, str):
            longest = most if name == "message" else NAME_BYTES
            kept[name] = value if json_size(value) <= longest else truncate_to_size(value, longest)
        elif name == "details" and isinstance(value, Mapping):
            kept[name] = _short_details(value)
    return kept


def _short_details(details: Mapping[str, object]) -> dict[str, object]:
    """Return the object that a Status names, without the list of causes."""
    texts = {name: details.get(name) for name in _DETAILS_MEMBERS}
    kept: dict[str, object] = {
        name: _truncate_name(value) for name, value in texts.items() if isinstance(value, str)
    }
    seconds = details.get("retryAfterSeconds")
    if isinstance(seconds, int) and abs(seconds) <= _MAX_RETRY_SECONDS:
        kept["retryAfterSeconds"] = seconds
    return kept


def _truncate_name(text: str) -> str:
    return text if json_size(text) <= NAME_BYTES else truncate_to_size(text, NAME_BYTES)


def quoted(text: str) -> str:
    """Return a string as JSON, with a shortcut for plain words and ids."""
    is_plain = text.isascii() and text.replace("-", "").isalnum()
    return f'"{text}"' if is_plain else go_json(text)


def go_duration(microseconds: int) -> str:
    """Return a duration as Go prints it: `1.5s`, `1m0.25s`, `730.001ms` or `12µs`."""
    if microseconds < _MILLISECOND:
        return f"{microseconds}µs" if microseconds else "0s"
    if microseconds < _SECOND:
        return f"{_format_decimal(microseconds / _MILLISECOND)}ms"
    minutes, rest = divmod(microseconds, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_format_decimal(rest / _SECOND)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _format_decimal(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def source_ips(
    headers: Sequence[tuple[bytes, bytes]], peer_address: str, *, trusts_peer: bool
) -> list[str]:
    """Return the source addresses of a request, the proxy's own peer last.

    Forwarding headers count only if the peer is trusted. As kube-apiserver does, only the first
    line of each header is read, and values that are not addresses are skipped.
    """
    addresses: list[str] = []
    if trusts_peer:
        forwarded = _first_value(headers, b"x-forwarded-for").split(",")
        addresses = [address for part in forwarded if (address := _parse_address(part.strip()))]
        real = _parse_address(_first_value(headers, b"x-real-ip"))
        if real and real not in addresses:
            addresses.append(real)
    peer = _parse_address(peer_address)
    if peer and addresses[-1:] != [peer]:
        addresses.append(peer)
    return addresses


def _user_agent(raw: bytes) -> str:
    """Return a user agent truncated as kube-apiserver does, and by its escaped size as well."""
    agent = raw[:AGENT_BYTES].decode("utf-8", "surrogateescape")
    fitting = longest_prefix(agent, WRITTEN_AGENT_BYTES, json_size)
    is_whole = len(raw) <= AGENT_BYTES and len(fitting) == len(agent)
    return fitting if is_whole else fitting + TRUNCATION_MARKER


def _first_value(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in headers:
        if name.lower() == wanted:
            return value.decode("latin-1")
    return ""


def _parse_address(text: str) -> str | None:
    if len(text) > _MAX_ADDRESS_LENGTH:
        return None
    # Go rejects an address with a zone, and prints an IPv4-mapped IPv6 address as IPv4.
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return None
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
    return str(address)
