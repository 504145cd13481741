"""Holds what the proxy understood, answered and audited against what Go has read behind it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.core.forwarding import HopContext
from proxy.core.impersonation.permit import permit_self
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.http1.body import BodyKind
from tests.smuggling.campaign import SWITCHING, Play
from tests.smuggling.cases import Fate
from tests.smuggling.understanding import End, Understood
from tests.support.go_server import RequestRead
from tests.support.http_client import Response
from tests.support.scripted_api_server import OWN_TOKEN
from tests.support.sent_heads import outbound_headers

_OURS = "Bearer " + OWN_TOKEN
_FEWEST_REFUSAL = 400


@dataclass(slots=True)
class Report:
    """How a campaign went."""

    faults: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        return f"{len(self.faults)} faults; {counted}"


def compare(
    plays: Iterable[Play], read: Iterable[RequestRead], events: Iterable[Mapping[str, Any]]
) -> Report:
    """Return every disagreement, each with the case that showed it."""
    comparison = _Comparison(read, events)
    for play in plays:
        faults = [*play.faults, *comparison.faults_of(play)]
        comparison.report.faults += [
            f"{play.case.name}: {fault}: {play.case.wire!r}" for fault in faults
        ]
    comparison.check_unanswered()
    return comparison.report


class _Comparison:
    def __init__(self, read: Iterable[RequestRead], events: Iterable[Mapping[str, Any]]) -> None:
        self.report = Report()
        self._events = {event["auditID"]: event for event in events}
        self._lost: Counter[tuple[str, bytes]] = Counter()
        self._read: dict[str, list[RequestRead]] = {}
        for request in read:
            self._read.setdefault(request.value("Audit-Id"), []).append(request)
            self.report.faults += [f"{fault}: {request}" for fault in _rule_faults(request)]

    def faults_of(self, play: Play) -> list[str]:
        """Return what is wrong with one case."""
        faults = []
        served = 0
        expected = play.expected
        for number, answer in enumerate(play.answers):
            understood = expected[number] if number < len(expected) else None
            read = self._read.pop(_audit_id(answer), [])
            if understood is not None and answer.status < _FEWEST_REFUSAL:
                served += understood in play.understanding.requests
                faults += self._served_faults(play, understood, answer, read)
            else:
                faults += _refused_faults(answer, read)
            self._count(play, answer, understood)
        if play.is_cut:
            lost = expected[len(play.answers) :]
            self._lost.update((play.user, one.head.target) for one in lost)
            faults += [] if play.understanding.end is End.TUNNEL else ["cut off"]
        return faults + _fate_faults(play, served)

    def check_unanswered(self) -> None:
        """What Go read and nobody saw an answer for was broken off, or its answer was.

        Who sends bytes behind an upgrade is cut off, and may lose even answers from before it.
        """
        for request in (one for read in self._read.values() for one in read):
            is_complete = request.body is None or request.body.is_complete
            lost = (request.value("Impersonate-User"), request.target)
            if is_complete and not self._lost[lost]:
                self.report.faults.append(f"carried out and not answered: {request}")
            elif is_complete:
                self._lost[lost] -= 1
            self.report.outcomes["answer lost" if is_complete else "broken off"] += 1

    def _served_faults(
        self, play: Play, understood: Understood, answer: Response, read: list[RequestRead]
    ) -> list[str]:
        if len(read) != 1:
            return [f"answered {answer.status}, and was read {len(read)} times"]
        event = self._events.get(_audit_id(answer), {})
        faults = _head_faults(play.user, understood, answer, read[0])
        faults += _audit_faults(play.user, answer, event, read[0])
        return faults + ([] if answer.status == SWITCHING else _body_faults(understood, read[0]))

    def _count(self, play: Play, answer: Response, understood: Understood | None) -> None:
        if understood is None:
            self.report.outcomes[play.understanding.end.name.lower().replace("_", " ")] += 1
        elif answer.status >= _FEWEST_REFUSAL:
            self.report.outcomes[f"refused {answer.status}"] += 1
        else:
            self.report.outcomes["tunnel" if answer.status == SWITCHING else "served"] += 1


def _audit_id(answer: Response) -> str:
    values = answer.values("audit-id")
    return values[0] if len(values) == 1 else "none"


def _rule_faults(request: RequestRead) -> list[str]:
    """The one rule: exactly one identity, our credential alone, nothing out of trailers."""
    faults = []
    if not request.value("Impersonate-User") or request.value("Authorization") != _OURS:
        faults.append("not one identity and our credential")
    if request.protocol != "HTTP/1.1" or not request.value("Audit-Id"):
        faults.append("not from the proxy")
    if request.body is not None and request.body.trailers:
        faults.append("a trailer crossed")
    return faults


def _refused_faults(answer: Response, read: list[RequestRead]) -> list[str]:
    faults = []
    if answer.status < _FEWEST_REFUSAL:
        faults.append(f"answered {answer.status} though it had to be refused")
    if any(request.body is None or request.body.is_complete for request in read):
        faults.append("refused and yet carried out")
    return faults


def _head_faults(
    user: str, understood: Understood, answer: Response, read: RequestRead
) -> list[str]:
    head = understood.head
    faults = []
    if (read.method.encode(), read.target) != (head.method, head.target):
        faults.append(f"read as {read.method} {read.target!r}")
    expected = _expected_headers(user, understood, _audit_id(answer))
    got = {
        name.lower().encode(): values
        for name, values in read.headers.items()
        if not name.startswith("Impersonate-")
    }
    if got != expected:
        faults.append(f"headers {got} instead of {expected}")
    return faults


def _expected_headers(user: str, understood: Understood, audit_id: str) -> dict[bytes, list[bytes]]:
    """Return the headers that the proxy means to send, by lower-case name, as Go keeps them."""
    head = understood.head
    context = HopContext(
        audit_id=audit_id.encode(),
        peer_address=b"127.0.0.1",
        authorization=_OURS.encode(),
        upgrade=head.upgrade,
        is_chunked=head.framing.kind is BodyKind.CHUNKED,
    )
    values: dict[bytes, list[bytes]] = {}
    for name, value in outbound_headers(head.headers, permit_self(Caller(UserInfo(user))), context):
        lowered = name.lower()
        # Go takes these out and obeys them; the identity is held against the audit event.
        if lowered not in {b"host", b"transfer-encoding"} and not lowered.startswith(
            b"impersonate"
        ):
            values.setdefault(lowered, []).append(value)
    return values


def _body_faults(understood: Understood, read: RequestRead) -> list[str]:
    framing, body = understood.head.framing, read.body
    if body is None or not body.is_complete:
        return ["answered, though its body was not complete"]
    faults = []
    if (body.size, body.digest) != (
        len(understood.body),
        hashlib.sha256(understood.body).hexdigest(),
    ):
        faults.append(f"a body of {body.size} bytes instead of {understood.body!r}")
    is_chunked = framing.kind is BodyKind.CHUNKED
    framed = (read.content_length, read.transfer_encoding)
    if framed != ((-1, ["chunked"]) if is_chunked else (framing.length, [])):
        faults.append(f"framed as {framed}")
    return faults


def _audit_faults(
    user: str, answer: Response, event: Mapping[str, Any], read: RequestRead
) -> list[str]:
    acting = event.get("impersonatedUser", event.get("user", {})).get("username")
    told = (
        event.get("user", {}).get("username"),
        event.get("requestURI"),
        event.get("responseStatus", {}).get("code"),
        acting,
    )
    seen = (user, read.url, answer.status, read.value("Impersonate-User"))
    return [] if told == seen else [f"audited as {told} and seen as {seen}"]


def _fate_faults(play: Play, served: int) -> list[str]:
    case, understanding = play.case, play.understanding
    if case.fate is Fate.ANY:
        return []
    faults = [] if served == case.served else [f"{served} requests served, not {case.served}"]
    is_unfinished = not understanding.is_refused and understanding.end.name.startswith("PART")
    if (case.fate is Fate.UNFINISHED) != is_unfinished:
        faults.append(f"ended with {understanding.end.name}")
    if case.fate is Fate.REFUSED and (len(play.answers) != 1 or play.is_cut):
        faults.append(f"refused with {len(play.answers)} answers")
    return faults
