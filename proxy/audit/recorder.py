"""The trail of one request: facts as they become known, written down when it is over.

Each request leaves one line in our own log. `audited_trail.py` adds audit events to that.
"""

import os
from collections.abc import Callable
from datetime import datetime

from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.audit_id import new_audit_id
from proxy.core.errors import Refusal
from proxy.core.identity import Caller
from proxy.telemetry.logs import EventLog
from proxy.wire.exchange import ExchangeObserver, Outcome
from proxy.wire.head import RequestHead
from proxy.wire.peer import Peer

access_log = EventLog("understudy.access", "request")

_ID_BYTES = 16
_IDS_AT_ONCE = 256


class Recorder:
    """Opens a trail for each request."""

    def __init__(self, wall_clock: Callable[[], datetime]) -> None:
        self.wall_clock = wall_clock
        self._random = b""
        self._used = 0

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> "Trail":
        """Start a trail under the client's id or a new one."""
        return Trail(self, request, peer, audit_id or self._new_id())

    def _new_id(self) -> bytes:
        # The kernel is asked for many at once: it costs as much as for one.
        start = self._used
        if start == len(self._random):
            self._random, start = os.urandom(_ID_BYTES * _IDS_AT_ONCE), 0
        self._used = end = start + _ID_BYTES
        return new_audit_id(self._random[start:end])


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

    @property
    def observer(self) -> ExchangeObserver | None:
        """Our own log needs nothing but the end."""
        return None

    def acts(self, action: Action) -> None:
        """Learn what the request does."""
        self._action = action

    def is_called_by(self, caller: Caller) -> None:
        """Learn who is calling."""
        self._caller = caller

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        self._admission = admission

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        self._refusal = refusal

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        self._log(outcome, self._recorder.wall_clock())

    def _log(self, outcome: Outcome, ended_at: datetime) -> None:
        if access_log.is_enabled:
            access_log.write(ended_at, self._summary(outcome, ended_at))

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
