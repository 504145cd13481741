"""One `audit.k8s.io/v1` event as a line of JSON: fields and their order are the API server's.

An event is put together from texts that are JSON already, because most of them are the same for
many requests: `core/audit_pieces.py` remembers those.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.errors import Refusal
from proxy.core.go_url import request_uri
from proxy.core.identity import Identity
from proxy.core.second_text import SECOND, SecondText
from proxy.core.status import go_json

_LONGEST_AGENT = 1024
_LONGEST_ADDRESS = 64
_CUT_AGENT = "...TRUNCATED"
_NOTHING_SENT = {"status": "Success", "message": "Connection closed early"}
_OK = 200
_MILLISECOND = 1000
_SECOND = 1_000_000
_STATUS_MEMBERS = ("status", "message", "reason", "details")


class Stage(StrEnum):
    """How far a request has come when an event is written."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"


class EventText(NamedTuple):
    """The parts of an event in their order. What may be missing begins with its comma, or is empty.

    `audit_id` and `user` are whole JSON values, `request` is two members.
    """

    level: str
    audit_id: str
    stage: str
    request: str
    user: str = "{}"
    decision: str = ""
    origin: str = ""
    object_reference: str = ""
    response: str = ""
    bodies: str = ""
    received_at: str = ""
    stage_at: str = ""
    annotations: str = ""


_LINE = (
    '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"%s","auditID":%s,"stage":"%s",%s,'
    '"user":%s%s%s%s%s%s,"requestReceivedTimestamp":"%s","stageTimestamp":"%s"%s}\n'
)


def event_line(event: EventText) -> bytes:
    """Return an event as one line of an audit log."""
    return (_LINE % event).encode()


# An event of which nothing special is to be told: first for what equal requests have in common, and
# then once more for the id, the code and two moments. Made from the other pattern, so that both
# cannot come apart.
PLAIN_LINE = _LINE % EventText(
    level="%s",
    audit_id="%%s",
    stage=Stage.RESPONSE_COMPLETE.value,
    request="%s",
    user="%s",
    decision="%s",
    origin="%s",
    object_reference="%s",
    response=',"responseStatus":{"metadata":{},"code":%%d}',
    bodies="",
    received_at="%%s",
    stage_at="%%s",
    annotations="%s",
)


def request_text(action: Action | None, method: bytes, target: bytes) -> str:
    """Return what was asked for: the target as Go shows it, and the verb."""
    verb = method.decode("ascii").lower() if action is None else action.verb
    return f'"requestURI":{go_json(request_uri(target))},"verb":{go_json(verb)}'


def user_text(identity: Identity | None) -> str:
    """Return a user; nobody is an empty one."""
    if identity is None:
        return "{}"
    user = {
        "username": identity.name,
        "uid": identity.uid,
        "groups": list(identity.groups),
        "extra": {key: list(values) for key, values in identity.extra},
    }
    return go_json({name: value for name, value in user.items() if value})


def decision_text(admission: Admission | None) -> str:
    """Return whom the caller became and by which constraint, if it became somebody else."""
    if admission is None or admission.mode is None:
        return ""
    text = f',"impersonatedUser":{user_text(admission.acting)}'
    if admission.constraint is None:
        return text
    constraint = go_json({"impersonationConstraint": admission.constraint})
    return f'{text},"authenticationMetadata":{constraint}'


def origin_text(addresses: Sequence[str], agent: bytes) -> str:
    """Return where the request came from, and by which program."""
    text = f',"sourceIPs":{go_json(list(addresses))}' if addresses else ""
    return f'{text},"userAgent":{go_json(_shortened(agent))}' if agent else text


def object_text(action: Action | None, metadata: Mapping[str, str] | None = None) -> str:
    """Return which object is meant; what the target does not say may be in the body's metadata."""
    if action is None or not action.is_resource:
        return ""
    known = metadata or {}
    reference = {
        "resource": action.resource,
        "namespace": action.namespace or known.get("namespace", ""),
        "name": action.name or known.get("name", ""),
        "uid": known.get("uid", ""),
        "apiGroup": action.group,
        "apiVersion": action.version,
        "resourceVersion": known.get("resourceVersion", ""),
        "subresource": action.subresource,
    }
    return f',"objectRef":{go_json({name: value for name, value in reference.items() if value})}'


def response_text(
    code: int, refusal: Refusal | None = None, status: Mapping[str, object] | None = None
) -> str:
    """Return how a request was answered: by our refusal, by a Status of the API server, or plainly.

    Code 0 means that nothing was sent at all, for which the API server has words of its own.
    """
    if refusal is not None and not refusal.is_plain_text:
        told: dict[str, object] = {
            "status": "Failure",
            "message": refusal.message,
            "reason": refusal.reason,
        }
        details: dict[str, object] = dict(refusal.details or {})
        if refusal.retry_after_seconds is not None:
            details["retryAfterSeconds"] = refusal.retry_after_seconds
        if details or refusal.details is not None:
            told["details"] = details
        return _response(code or refusal.code, told)
    if code == 0:
        return _response(_OK, _NOTHING_SENT)
    if status is None:
        return f',"responseStatus":{{"metadata":{{}},"code":{code}}}'
    return _response(code, {name: status[name] for name in _STATUS_MEMBERS if name in status})


def _response(code: int, told: Mapping[str, object]) -> str:
    return f',"responseStatus":{go_json({"metadata": {}, **told, "code": code})}'


def quoted(text: str) -> str:
    """Return a text as JSON; plain words and ids with little work."""
    is_plain = text.isascii() and text.replace("-", "").isalnum()
    return f'"{text}"' if is_plain else go_json(text)


class Timestamps:
    """Writes moments down as Go does, most of which are in the same second as the one before."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = SecondText()

    def of_both(self, earlier: int, later: int) -> tuple[str, str]:
        """Return the timestamps of two moments of one request."""
        # Not by an f-string, which takes twice as long for digits.
        second, rest = divmod(earlier, SECOND)
        text = self._seconds.of(second)
        first = "%s.%06dZ" % (text, rest // 1000)  # noqa: UP031
        last_second, rest = divmod(later, SECOND)
        if last_second != second:
            text = self._seconds.of(last_second)
        return first, "%s.%06dZ" % (text, rest // 1000)  # noqa: UP031


def go_duration(microseconds: int) -> str:
    """Return a duration as Go prints it: `1.5s`, `1m0.25s`, `730.001ms` or `12µs`."""
    if microseconds < _MILLISECOND:
        return f"{microseconds}µs" if microseconds else "0s"
    if microseconds < _SECOND:
        return f"{_plain(microseconds / _MILLISECOND)}ms"
    minutes, rest = divmod(microseconds, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_plain(rest / _SECOND)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _plain(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def source_ips(
    headers: Sequence[tuple[bytes, bytes]], peer_address: str, *, trusts_peer: bool
) -> list[str]:
    """Return where a request came from, our own peer last; others' word only if the peer's counts.

    Natively only the first line of each header is read, and what is no address is skipped.
    """
    addresses: list[str] = []
    if trusts_peer:
        forwarded = _first(headers, b"x-forwarded-for").split(",")
        addresses = [address for part in forwarded if (address := _address(part.strip()))]
        real = _address(_first(headers, b"x-real-ip"))
        if real and real not in addresses:
            addresses.append(real)
    peer = _address(peer_address)
    if peer and addresses[-1:] != [peer]:
        addresses.append(peer)
    return addresses


def _shortened(raw: bytes) -> str:
    agent = raw[:_LONGEST_AGENT].decode("utf-8", "surrogateescape")
    return agent + _CUT_AGENT if len(raw) > _LONGEST_AGENT else agent


def _first(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in headers:
        if name.lower() == wanted:
            return value.decode("latin-1")
    return ""


def _address(text: str) -> str | None:
    # The same few peers come back with every request, and what is longer is no address.
    return _read_address(text) if len(text) <= _LONGEST_ADDRESS else None


@lru_cache(maxsize=1024)
def _read_address(text: str) -> str | None:
    # A zone is no part of an address for Go, and an IPv4 address in IPv6 clothes is one in plain.
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
