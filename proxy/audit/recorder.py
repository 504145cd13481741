"""The trail of one request: facts as they become known, written down when it is over.

Each request leaves one line in our own log and, where an audit file is configured, one
`audit.k8s.io/v1` event of the stage ResponseComplete.
"""

import os
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.audit_event import AuditFacts, Stage, build_event, event_line, source_ips
from proxy.core.audit_id import new_audit_id
from proxy.core.errors import AuditUnavailable, Refusal, UnreadableRequest
from proxy.core.identity import Caller
from proxy.telemetry.logs import EventLog
from proxy.wire.exchange import Outcome
from proxy.wire.head import RequestHead
from proxy.wire.peer import Peer

access_log = EventLog("understudy.access", "request")

_WARNING_ANNOTATION = "kube-understudy.io/warning"


class AuditSink(Protocol):
    """Takes audit events."""

    def write(self, line: bytes) -> None:
        """Take one event as a line; returns at once."""
        ...


class Recorder:
    """Opens a trail for each request."""

    def __init__(self, wall_clock: Callable[[], datetime], sink: AuditSink | None) -> None:
        self.wall_clock = wall_clock
        self.sink = sink

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> "Trail":
        """Start a trail under the client's id or a new one."""
        return Trail(self, request, peer, audit_id or new_audit_id(os.urandom(16)))


class Trail:
    """What is known of one request so far."""

    __slots__ = (
        "_action",
        "_admission",
        "_caller",
        "_peer",
        "_received_at",
        "_recorder",
        "_refusal",
        "_request",
        "audit_id",
    )

    def __init__(
        self, recorder: Recorder, request: RequestHead, peer: Peer, audit_id: bytes
    ) -> None:
        self._recorder = recorder
        self._request = request
        self._peer = peer
        self._received_at = recorder.wall_clock()
        self._action: Action | None = None
        self._caller: Caller | None = None
        self._admission: Admission | None = None
        self._refusal: Refusal | None = None
        self.audit_id = audit_id

    def acts(self, action: Action) -> None:
        """Learn what the request does."""
        self._action = action

    def is_called_by(self, caller: Caller) -> None:
        """Learn who is calling."""
        self._caller = caller

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        self._admission = admission

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        self._refusal = refusal

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        ended_at = self._recorder.wall_clock()
        # What a request does must be known before it can be audited: the API server, too, answers
        # what it cannot read before its audit begins. Our own log still has its line.
        # And what is refused because events cannot be stored must not fill the buffer that
        # those of requests under way still need; it is counted.
        is_auditable = not isinstance(self._refusal, UnreadableRequest | AuditUnavailable)
        if self._recorder.sink is not None and is_auditable:
            event = build_event(self._facts(outcome, ended_at))
            self._recorder.sink.write(event_line(event))
        if access_log.is_enabled:
            access_log.write(ended_at, self._summary(outcome, ended_at))

    def _facts(self, outcome: Outcome, ended_at: datetime) -> AuditFacts:
        request = self._request
        agent = next(
            (value for name, value in request.headers if name.lower() == b"user-agent"), b""
        )
        warning = self._admission.warning if self._admission else None
        return AuditFacts(
            audit_id=self.audit_id.decode("ascii"),
            stage=Stage.RESPONSE_COMPLETE,
            verb=request.method.decode("ascii").lower(),
            target=request.target,
            received_at=self._received_at,
            stage_at=ended_at,
            action=self._action,
            caller=self._caller.identity if self._caller else None,
            admission=self._admission,
            source_ips=source_ips(request.headers, self._peer.address, trusts_peer=False),
            user_agent=agent,
            code=outcome.status,
            refusal=self._refusal,
            annotations={_WARNING_ANNOTATION: warning} if warning else {},
        )

    def _summary(self, outcome: Outcome, ended_at: datetime) -> dict[str, object]:
        action, admission = self._action, self._admission
        summary: dict[str, object] = {
            "audit_id": self.audit_id.decode("ascii"),
            "source": self._peer.address,
            "caller": self._caller.identity.name if self._caller else None,
            "acting": admission.acting.name if admission else None,
            "mode": admission.mode if admission else None,
            "verb": action.verb if action else self._request.method.decode("ascii"),
            "resource": action.resource if action else None,
            "code": outcome.status,
            "bytes": outcome.body_bytes,
            "complete": outcome.is_complete,
            "seconds": round((ended_at - self._received_at).total_seconds(), 6),
        }
        if self._refusal is not None:
            summary["refusal"] = self._refusal.message
        return summary
