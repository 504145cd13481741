"""The audit events of one request: written at each stage as far as the policy wants them."""

from datetime import timedelta
from http import HTTPStatus
from typing import NamedTuple

from proxy.audit.capturing_record import ListeningTrail
from proxy.audit.event_details import (
    EqualEvent,
    Heard,
    Room,
    Told,
    breakage,
    tell,
)
from proxy.core.audit.annotations import (
    LONG,
    Ending,
    Latencies,
    annotations_text,
    latencies_text,
)
from proxy.core.audit.event import (
    PLAIN_LINE,
    EventText,
    Stage,
    event_line,
)
from proxy.core.audit.fragments import PeoplePieces
from proxy.core.audit.policy import Recording
from proxy.core.errors import (
    AuditUnavailable,
    BadRequest,
    Forbidden,
    InternalError,
    Refusal,
    UnreadableRequest,
)
from proxy.core.impersonation.headers import read_wanted_identity
from proxy.core.impersonation.permit import Admission
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity
from proxy.wire.exchange import Outcome

_NOTHING_TOLD = Told()
_NOBODY = PeoplePieces("{}", "", "")
_FIRST_FINAL_STATUS = HTTPStatus.OK.value
_LONG_SECONDS = LONG.total_seconds()


class _Facts(NamedTuple):
    """What the annotations of an event tell."""

    admission: Admission | None = None
    refusal: Refusal | None = None
    reviews: int = 0
    ending: Ending | None = None
    wanted: Identity | None = None


_NO_FACTS = _Facts()


class AuditedTrail(ListeningTrail):
    """A trail that leaves events.

    Until somebody is authenticated there is nobody whom a rule could name. Whatever is answered
    before that leaves one event, of the stage ResponseStarted, as natively.
    """

    __slots__ = ()

    def is_admitted_again(self, action: Action, caller: Caller, admission: Admission) -> None:
        """Learn it all at once; how much is recorded is known from an equal request, if at all."""
        self._action, self._caller = action, caller
        notes, book = self._request.notes, self._book
        known = notes.get(book) if notes else None
        if (
            isinstance(known, EqualEvent)
            and known.admission is admission
            and known.policy is book.policy
        ):
            self._equal, self._recording = known, known.recording
            if known.recording.writes_received:
                self._has_come(known.recording)
        else:
            self._look_up(caller)
        # The last of all: the first event says nothing of a decision.
        self._admission = admission
        self._called_after = self._decided_after = self._recorder.clock() - self._opened_at

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        # What a request does must be known before it can be audited: the API server, too, answers
        # what it cannot read before its audit begins. Our own log still has its line. And what is
        # refused because events cannot be stored must not fill the buffer that those of requests
        # under way still need; it is counted.
        recorder = self._recorder
        ended_at, took = recorder.wall_clock(), recorder.clock() - self._opened_at
        if self._is_plain(outcome, took):
            self._record_plain_end(outcome, ended_at)
        elif not isinstance(self._refusal, UnreadableRequest | AuditUnavailable):
            self._record_end(outcome, ended_at)
        self._log(outcome, ended_at, took)

    def _drop_lines(self) -> None:
        """Keep them: every event tells what they say of where a request comes from."""

    def _is_plain(self, outcome: Outcome, took: float) -> bool:
        """Tell whether nothing special is to be told of a request, as of nearly all of them."""
        return (
            self._admission is not None
            and self._refusal is None
            and self._answer is None
            and self._body is None
            and self._reviews == 0
            and outcome.is_complete
            and outcome.status >= _FIRST_FINAL_STATUS
            and took <= _LONG_SECONDS
        )

    def _record_plain_end(self, outcome: Outcome, ended_at: int) -> None:
        """Do as `_record_end` does, quicker; a test holds that both write the same."""
        equal = self._equal or self._note_event()
        if equal is None:
            self._record_end(outcome, ended_at)
            return
        if not equal.recording.writes_complete:
            return
        book, status = self._book, outcome.status
        received, ended = book.pieces.timestamps.of_both(self._received_at, ended_at)
        # The id of a request that goes the short way is ours, and needs no quoting.
        is_ours = equal is self._equal
        line = equal.pattern % (
            b'"%b"' % self.audit_id if is_ours else self._id_text.encode(),
            status,
            received.encode(),
            ended.encode(),
            outcome.body_bytes,
            status,
        )
        book.sink.write(line)

    def _note_event(self) -> EqualEvent | None:
        """Return what plain events of equal requests have in common, and remember it for them.

        None if something is cut in them: that is to be told and counted, so they are not plain.
        """
        recording, admission, notes = self._recording, self._admission, self._request.notes
        if recording is None or admission is None:
            return None
        book, asked = self._book, self._asked_for
        pieces = book.pieces
        user, decision, annotations, cuts = pieces.people(admission)
        if cuts or asked.cuts:
            return None
        constant = (
            asked.request,
            user,
            decision,
            pieces.origin(self._request.headers, self._peer.address),
            asked.object_reference,
        )
        request, user, decision, origin, named = (text.replace("%", "%%") for text in constant)
        pattern = PLAIN_LINE % (
            recording.level_text,
            request,
            user,
            decision,
            origin,
            named,
            annotations,
        )
        equal = EqualEvent(admission, book.policy, recording, pattern.encode())
        if notes:
            notes[book] = equal
        return equal

    def _record_end(self, outcome: Outcome, ended_at: int) -> None:
        recording, is_wanted = self._recording, True
        stage = Stage.RESPONSE_COMPLETE
        if recording is None:
            recording = self._book.policy.recording_of(None, self._known_action)
            stage, is_wanted = Stage.RESPONSE_STARTED, recording.writes_started
        elif self._started_at is not None and self._answer is not None:
            self._has_begun(recording, outcome.status)
        if isinstance(self._refusal, InternalError):
            stage, is_wanted = Stage.PANIC, recording.writes_panic
        elif stage is Stage.RESPONSE_COMPLETE:
            is_wanted = recording.writes_complete
        if is_wanted:
            self._write_end(recording, stage, outcome, ended_at)

    def _has_come(self, recording: Recording) -> None:
        """Write the first event. Nothing is decided yet, so it says nothing of a decision."""
        self._write(recording, Stage.REQUEST_RECEIVED, self._received_at)

    def _has_begun(self, recording: Recording, status: int) -> None:
        """Write the event of an answer that lasts."""
        if self._started_at is not None:
            told = self._told(self._heard(status), recording)
            facts = _Facts(self._admission, self._refusal, self._reviews)
            self._write(recording, Stage.RESPONSE_STARTED, self._started_at, told, facts)

    def _write_end(
        self, recording: Recording, stage: Stage, outcome: Outcome, ended_at: int
    ) -> None:
        heard = self._heard(outcome.status)
        told = self._told(heard, recording)
        ending = Ending(
            outcome.status if heard.refusal is None else heard.refusal.upstream_code,
            outcome.body_bytes,
            breakage(heard, self._refusal, is_complete=outcome.is_complete),
            told.lost_request,
            told.lost_response,
            latencies_text(self._latencies(ended_at), verb=self._known_action.verb),
        )
        wanted = self._denied_identity()
        facts = _Facts(self._admission, self._refusal, self._reviews, ending, wanted)
        self._write(recording, stage, ended_at, told, facts)

    def _told(self, heard: Heard, recording: Recording) -> Told:
        limits = self._book.pieces.limits
        known = limits.authenticated if self._is_authenticated else limits.unauthenticated
        room = Room(known.message, self._book.body_bytes)
        return tell(heard, recording, self._known_action, room)

    def _denied_identity(self) -> Identity | None:
        """Return whom a request that we forbade has asked for."""
        if self._admission is not None or not isinstance(self._refusal, Forbidden):
            return None
        try:
            return read_wanted_identity(self._request.headers)
        except BadRequest:
            return None

    def _heard(self, status: int) -> Heard:
        refusal = self._refusal
        if refusal is not None and status not in (0, refusal.code):
            refusal = None  # It came too late to be told: the answer had begun.
        return Heard(status, refusal, self._body, self._answer)

    def _write(
        self,
        recording: Recording,
        stage: Stage,
        moment: int,
        told: Told = _NOTHING_TOLD,
        facts: _Facts = _NO_FACTS,
    ) -> None:
        book, request, asked = self._book, self._request, self._asked_for
        known_by = self._admission or self._caller
        people = _NOBODY if known_by is None else book.pieces.people(known_by)
        received, stamped = book.pieces.timestamps.of_both(self._received_at, moment)
        annotations = annotations_text(
            facts.admission,
            facts.refusal,
            reviews=facts.reviews,
            ending=facts.ending,
            wanted=facts.wanted,
            cuts=asked.cuts + people.cuts + told.cuts,
        )
        event = EventText(
            recording.level_text,
            self._id_text,
            stage,
            asked.request,
            people.user,
            people.decision,
            book.pieces.origin(request.headers, self._peer.address),
            asked.object_reference if told.object_reference is None else told.object_reference,
            told.response,
            told.bodies,
            received,
            stamped,
            annotations.text,
        )
        if annotations.cuts:
            book.when_truncated()
        book.sink.write(event_line(event))

    def _latencies(self, ended_at: int) -> Latencies:
        admission, called, decided = self._admission, self._called_after, self._decided_after
        impersonation = None
        if (admission is not None and admission.mode is not None) or self._reviews:
            impersonation = None if called is None or decided is None else decided - called
        total = timedelta(microseconds=ended_at // 1000 - self._received_at // 1000)
        return Latencies(total, called, impersonation)
