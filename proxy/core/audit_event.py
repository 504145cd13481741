"""One `audit.k8s.io/v1` event as data: the fields and their order are the API server's."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.errors import Refusal
from proxy.core.go_url import request_uri
from proxy.core.identity import Identity
from proxy.core.status import go_json

_LONGEST_AGENT = 1024
_LONGEST_ADDRESS = 64
_CUT_AGENT = "...TRUNCATED"


class Stage(StrEnum):
    """How far a request has come when an event is written."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """Everything an event tells. What was never found out is None; times are aware of their zone.

    `caller` is who was authenticated and stays the user of the event, whoever acts.
    """

    audit_id: str
    stage: Stage
    verb: str
    target: bytes
    received_at: datetime
    stage_at: datetime
    action: Action | None = None
    caller: Identity | None = None
    admission: Admission | None = None
    source_ips: Sequence[str] = ()
    user_agent: bytes = b""
    code: int | None = None
    refusal: Refusal | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


def build_event(facts: AuditFacts, *, level: str = "Metadata") -> dict[str, object]:
    """Return an event with its fields in order; what is unknown or empty is left out."""
    event: dict[str, object] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": facts.audit_id,
        "stage": facts.stage.value,
        "requestURI": request_uri(facts.target),
        "verb": facts.verb if facts.action is None else facts.action.verb,
        "user": {} if facts.caller is None else _user(facts.caller),
    }
    # The first event is written before anything is decided, so it says nothing of a decision.
    if facts.stage is not Stage.REQUEST_RECEIVED:
        event |= _impersonation(facts.admission)
    event |= _present(
        {
            "sourceIPs": list(facts.source_ips),
            "userAgent": _agent(facts.user_agent),
            "objectRef": _object(facts.action),
            "responseStatus": _response(facts),
        }
    )
    event["requestReceivedTimestamp"] = _timestamp(facts.received_at)
    event["stageTimestamp"] = _timestamp(facts.stage_at)
    return event | _present({"annotations": dict(sorted(facts.annotations.items()))})


def event_line(event: Mapping[str, object]) -> bytes:
    """Return an event as one line of an audit log."""
    return go_json(event).encode() + b"\n"


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


def _present(members: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value}


def _user(identity: Identity) -> dict[str, object]:
    return _present(
        {
            "username": identity.name,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": {key: list(values) for key, values in identity.extra},
        }
    )


def _impersonation(admission: Admission | None) -> dict[str, object]:
    if admission is None or admission.mode is None:
        return {}
    event: dict[str, object] = {"impersonatedUser": _user(admission.acting)}
    if admission.constraint is not None:
        event["authenticationMetadata"] = {"impersonationConstraint": admission.constraint}
    return event


def _object(action: Action | None) -> dict[str, object]:
    if action is None or not action.is_resource:
        return {}
    return _present(
        {
            "resource": action.resource,
            "namespace": action.namespace,
            "name": action.name,
            "apiGroup": action.group,
            "apiVersion": action.version,
            "subresource": action.subresource,
        }
    )


def _response(facts: AuditFacts) -> dict[str, object]:
    if facts.stage is Stage.REQUEST_RECEIVED or facts.code is None:
        return {}
    response: dict[str, object] = {"metadata": {}}
    refusal = facts.refusal
    if refusal is not None and not refusal.is_plain_text:
        response |= {
            "status": "Failure",
            "message": refusal.message,
            "reason": refusal.reason,
        }
        if refusal.details is not None:
            response["details"] = dict(refusal.details)
    response["code"] = facts.code
    return response


def _agent(raw: bytes) -> str:
    agent = raw[:_LONGEST_AGENT].decode("utf-8", "surrogateescape")
    return agent + _CUT_AGENT if len(raw) > _LONGEST_AGENT else agent


def _timestamp(moment: datetime) -> str:
    # In UTC the text ends in +00:00, for which Go writes Z.
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{utc.isoformat(timespec='microseconds')[:-6]}Z"


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
