"""The trail of one request: facts as they become known, written down when it is over.

Each request leaves one line in our own log. `audited_trail.py` adds audit events to that.
"""

import os
import time
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from proxy.core.audit.annotations import new_audit_id
from proxy.core.errors import Refusal, UnreadableRequest
from proxy.core.http.headers import NO_LINES
from proxy.core.impersonation.permit import Admission
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller
from proxy.telemetry.logs import EventLog, members
from proxy.telemetry.tracing import RequestFacts, Tracing
from proxy.wire.exchange import ExchangeObserver, Outcome, Peer
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead

access_log = EventLog("understudy.access", "request")

_ID_BYTES = 16
_IDS_AT_ONCE = 256
_NOT_ADMITTED = "none"
_UNREADABLE = "unreadable"
_LONGEST_NAME = 256


RequestKey = tuple[str, int, bool, str | None, bool]
"""Verb, status, whether it may last, mode (None: as the caller itself), whether it was warned."""

_PLAIN_MEMBERS = (
    '"audit_id":"%s",%s,"code":%d,"bytes":%d,"complete":true,"seconds":%.6f,'
    '"authentication_seconds":%.6f,"decision_seconds":%.6f,"upstream_seconds":%.6f'
)


class _Common(NamedTuple):
    """What the lines of equal requests have in common, as long as they become the same."""

    admission: Admission
    members: str


class RequestCounter(Protocol):
    """Counts requests when they have ended."""

    def request_ended(self, key: RequestKey, seconds: float) -> None:
        """Count a request, and how long it took."""
        ...

    def request_refused(self, refusal: Refusal) -> None:
        """Count a request that we answered."""
        ...


class Recorder:
    """Opens a trail for each request."""

    observes: ClassVar[bool] = False

    def __init__(
        self,
        wall_clock: Callable[[], int],
        *,
        clock: Callable[[], float] = time.monotonic,
        counter: RequestCounter | None = None,
    ) -> None:
        """`wall_clock` tells nanoseconds since 1970, for when things happen.

        `clock` tells seconds from anywhere, for how long they take.
        """
        self.wall_clock = wall_clock
        self.clock = clock
        self.counter = counter
        # Who makes spans, if anybody does.
        self.tracing: Tracing | None = None
        self._ids: list[bytes] = []

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> "Trail":
        """Start a trail under the client's id or a new one."""
        return Trail(self, request, peer, audit_id or (self._ids or self._new_ids()).pop())

    def _new_ids(self) -> list[bytes]:
        """Return ids that nobody else has, for this and the next requests."""
        # The kernel is asked for many at once: it costs as much as for one.
        random = os.urandom(_ID_BYTES * _IDS_AT_ONCE)
        starts = range(0, len(random), _ID_BYTES)
        self._ids = [new_audit_id(random[start : start + _ID_BYTES]) for start in starts]
        return self._ids


class Trail:
    """What is known of one request so far."""

    __slots__ = (
        "_action",
        "_admission",
        "_called_after",
        "_caller",
        "_decided_after",
        "_opened_at",
        "_peer",
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
        self._opened_at = recorder.clock()
        self._called_after: float | None = None
        self._decided_after: float | None = None
        self._action: Action | None = None
        self._caller: Caller | None = None
        self._admission: Admission | None = None
        self._refusal: Refusal | None = None
        self.audit_id = audit_id
        if recorder.tracing is not None:
            recorder.tracing.begin((audit_id, id(request)), request.headers)

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
        self._called_after = self._recorder.clock() - self._opened_at

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        self._admission = admission
        self._decided_after = self._recorder.clock() - self._opened_at
        if self._action is not None and self._action.is_long_running:
            self._drop_lines()

    def is_admitted_again(self, action: Action, caller: Caller, admission: Admission) -> None:
        """Learn at once what a request does, who is calling, and who it becomes."""
        self._action, self._caller, self._admission = action, caller, admission
        self._called_after = self._decided_after = self._recorder.clock() - self._opened_at

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        self._refusal = refusal
        if self._decided_after is None:
            self._decided_after = self._recorder.clock() - self._opened_at

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        recorder = self._recorder
        self._log(outcome, recorder.wall_clock(), recorder.clock() - self._opened_at)

    def _drop_lines(self) -> None:
        """Keep no header lines, a token among them, for as long as a watch lasts.

        Of a request that was admitted our log tells nothing that is in them.
        """
        if self._recorder.tracing is None:  # which knows a request by its head
            self._request = self._request._replace(headers=NO_LINES)

    def _log(self, outcome: Outcome, ended_at: int, took: float) -> None:
        recorder = self._recorder
        if recorder.counter is not None:
            self._count(recorder.counter, outcome, took)
        if recorder.tracing is not None:
            self._trace(recorder.tracing, outcome, took)
        if not self._log_plainly(outcome, ended_at, took) and access_log.is_enabled:
            access_log.write(ended_at, self._summary(outcome, took))

    def _log_plainly(self, outcome: Outcome, ended_at: int, took: float) -> bool:
        """Say what `_summary` says, if it can be said quicker; a test holds that it is the same."""
        called, decided, notes = self._called_after, self._decided_after, self._request.notes
        if called is None or decided is None or not notes:
            return False
        if self._refusal is not None or not outcome.is_complete:
            return False
        known = notes.get(access_log)
        if not isinstance(known, _Common) or known.admission is not self._admission:
            known = self._note_common(notes)
            if known is None:
                return False
        return access_log.write_json(
            ended_at,
            _PLAIN_MEMBERS
            % (
                self.audit_id.decode("ascii"),
                known.members,
                outcome.status,
                outcome.body_bytes,
                took,
                called,
                decided - called,
                took - decided,
            ),
        )

    def _note_common(self, notes: dict[object, object]) -> _Common | None:
        """Return what the lines of all equal requests have in common, and remember it for them."""
        if self._admission is None or b'"' in self.audit_id or b"\\" in self.audit_id:
            return None  # A client's id, which equal requests share. Ours never need quoting.
        common = notes[access_log] = _Common(self._admission, members(self._who_and_what()))
        return common

    def _trace(self, tracing: Tracing, outcome: Outcome, took: float) -> None:
        action, admission = self._action, self._admission
        facts = RequestFacts(
            verb=_UNREADABLE if action is None else action.verb,
            resource="" if action is None else action.resource,
            method=self._request.method.decode("ascii", "replace"),
            status=outcome.status,
            mode=_NOT_ADMITTED if admission is None else admission.mode,
            called_after=self._called_after,
            decided_after=self._decided_after,
            took=took,
            is_forwarded=admission is not None,
            caller_groups=() if self._caller is None else self._caller.identity.groups,
        )
        tracing.ended((self.audit_id, id(self._request)), facts)

    def _count(self, counter: RequestCounter, outcome: Outcome, took: float) -> None:
        action, admission, status = self._action, self._admission, outcome.status
        verb = _UNREADABLE if action is None else action.verb
        is_long = action is not None and action.is_long_running
        is_long = is_long or status == SWITCHING_PROTOCOLS
        mode = _NOT_ADMITTED if admission is None else admission.mode
        is_warned = admission is not None and admission.warning is not None
        counter.request_ended((verb, status, is_long, mode, is_warned), took)
        if self._refusal is not None:
            counter.request_refused(self._refusal)

    def _summary(self, outcome: Outcome, took: float) -> dict[str, object]:
        admission = self._admission
        summary: dict[str, object] = {
            "audit_id": self.audit_id.decode("ascii"),
            **self._who_and_what(),
            "code": outcome.status,
            "bytes": outcome.body_bytes,
            "complete": outcome.is_complete,
            "seconds": round(took, 6),
        }
        called, decided = self._called_after, self._decided_after
        if called is not None:
            summary["authentication_seconds"] = round(called, 6)
            if decided is not None:
                summary["decision_seconds"] = round(decided - called, 6)
                if admission is not None:
                    summary["upstream_seconds"] = round(took - decided, 6)
        if self._refusal is not None:
            self._tell_refusal(summary, self._refusal)
        return summary

    def _who_and_what(self) -> dict[str, object]:
        action, admission = self._action, self._admission
        return {
            "source": self._peer.address,
            "caller": self._caller.identity.name if self._caller else None,
            "acting": admission.acting.name if admission else None,
            "mode": admission.mode if admission else None,
            "verb": action.verb if action else self._request.method.decode("ascii"),
            "resource": action.resource if action else None,
        }

    def _tell_refusal(self, summary: dict[str, object], refusal: Refusal) -> None:
        # What the API server cannot read it repeats, query and all, and there may be a token in it.
        is_repeated = isinstance(refusal, UnreadableRequest)
        summary["refusal"] = "unreadable request" if is_repeated else refusal.message
        if self._admission is None and self._caller is not None:
            for name, value in self._request.headers:
                if name.lower() == b"impersonate-user":
                    summary["wanted"] = value[:_LONGEST_NAME].decode("utf-8", "replace")
