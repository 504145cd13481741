"""The audit events of one request: written at each stage as far as the policy wants them."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus

from proxy.audit.book import AuditBook
from proxy.audit.overhearing import (
    HeardBody,
    OverheardReceiver,
    begin_answer,
    begin_request,
)
from proxy.audit.recorder import Recorder, Trail
from proxy.audit.told import Heard, Told, breakage, plainly_told, tell
from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.audit_annotations import (
    LONG,
    Ending,
    Latencies,
    annotations_text,
    latencies_text,
)
from proxy.core.audit_body import has_response_object
from proxy.core.audit_event import EventText, Stage, event_line, quoted
from proxy.core.audit_pieces import RequestPieces
from proxy.core.audit_policy import Recording
from proxy.core.errors import InternalError, Refusal, UnreadableRequest
from proxy.core.identity import Caller
from proxy.wire.exchange import ExchangeObserver, Outcome, RequestReceiver
from proxy.wire.head import SWITCHING_PROTOCOLS, Header, RequestHead
from proxy.wire.peer import Peer

_READING = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_FIRST_FAILURE = HTTPStatus.BAD_REQUEST.value
_NOTHING_TOLD = Told()
_FIRST_FINAL_STATUS = HTTPStatus.OK.value


class AuditedTrail(Trail):
    """A trail that hears what passes and leaves events.

    Until somebody is authenticated there is nobody whom a rule could name. Whatever is answered
    before that leaves one event, of the stage ResponseStarted, as natively.
    """

    __slots__ = (
        "_answer",
        "_asked",
        "_body",
        "_book",
        "_called_after",
        "_decided_after",
        "_opened_at",
        "_recording",
        "_reviews",
        "_started_at",
    )

    def __init__(
        self,
        recorder: Recorder,
        book: AuditBook,
        request: RequestHead,
        peer: Peer,
        audit_id: bytes,
    ) -> None:
        super().__init__(recorder, request, peer, audit_id)
        self._book = book
        self._recording: Recording | None = None
        self._asked: RequestPieces | None = None
        self._opened_at = book.clock()
        self._called_after: float | None = None
        self._decided_after: float | None = None
        self._started_at: datetime | None = None
        self._reviews = 0
        self._body: HeardBody | None = None
        self._answer: HeardBody | None = None

    @property
    def observer(self) -> ExchangeObserver | None:
        """We hear what passes."""
        return self

    # --- what becomes known ----------------------------------------------------------------

    def is_called_by(self, caller: Caller) -> None:
        """Learn who is calling, and how much of the request is to be recorded."""
        self._caller = caller
        book = self._book
        self._called_after = book.clock() - self._opened_at
        recording = book.policy.recording_of(caller.identity, self._known_action)
        self._recording = recording
        if recording.writes_received:
            self._write(recording, Stage.REQUEST_RECEIVED, self._received_at)

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        self._reviews = count

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        self._admission = admission
        self._decided_after = self._book.clock() - self._opened_at

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        self._refusal = refusal
        if self._decided_after is None:
            self._decided_after = self._book.clock() - self._opened_at

    # --- what passes -----------------------------------------------------------------------

    def overhear(self, receiver: RequestReceiver) -> RequestReceiver:
        """Hear a body that is to be recorded, or that names the object."""
        recording, request = self._recording, self._request
        if recording is None or recording.is_silent or not request.framing.has_body:
            return receiver
        limit = self._book.body_bytes
        self._body = body = begin_request(recording, request, self._known_action, limit=limit)
        is_heard = body is not None and body.media.is_json
        return OverheardReceiver(receiver, body) if body is not None and is_heard else receiver

    def answer_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Hear of the answer's head; that a long one has begun is an event of its own.

        If that event needs more of the answer, it is written at the end, with the time of now.
        """
        recording = self._recording
        if recording is None:
            return self._hears_answer(recording, status, headers, payload)
        if recording.is_silent:
            return False
        is_heard = self._hears_answer(recording, status, headers, payload)
        is_long = self._asked_for.is_long_running or status == SWITCHING_PROTOCOLS
        if is_long and recording.writes_started:
            self._started_at = self._recorder.wall_clock()
            if not is_heard:
                self._write_started(recording, status)
        return is_heard

    def answer_data(self, payload: bytes) -> None:
        """Hear the next piece of the answer."""
        if self._answer is not None:
            self._answer.add(payload)

    def _hears_answer(
        self, recording: Recording | None, status: int, headers: Sequence[Header], payload: bytes
    ) -> bool:
        """Begin to hear an answer that is wanted whole, or that may be a Status.

        How much nobody's answer is wanted is not known yet, but it is short and ours.
        """
        is_whole = recording is None or recording.has_response_body
        may_tell = status >= _FIRST_FAILURE or self._request.method not in _READING
        if not (is_whole or may_tell) or not has_response_object(self._known_action, status):
            return False
        limit = self._book.body_bytes
        self._answer = answer = begin_answer(headers, payload, is_whole=is_whole, limit=limit)
        return answer is not None and answer.media.is_json

    # --- what is written -------------------------------------------------------------------

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        # What a request does must be known before it can be audited: the API server, too, answers
        # what it cannot read before its audit begins. Our own log still has its line.
        ended_at = self._recorder.wall_clock()
        if self._is_plain(outcome, ended_at):
            self._record_plain_end(outcome, ended_at)
        elif not isinstance(self._refusal, UnreadableRequest):
            self._record_end(outcome, ended_at)
        self._log(outcome, ended_at)

    def _is_plain(self, outcome: Outcome, ended_at: datetime) -> bool:
        """Tell whether nothing special is to be told of a request, as of nearly all of them."""
        return (
            self._admission is not None
            and self._refusal is None
            and self._answer is None
            and self._body is None
            and self._reviews == 0
            and outcome.is_complete
            and outcome.status >= _FIRST_FINAL_STATUS
            and ended_at - self._received_at <= LONG
        )

    def _record_plain_end(self, outcome: Outcome, ended_at: datetime) -> None:
        """Do as `_record_end` does, quicker; a test holds that both write the same."""
        recording, admission = self._recording, self._admission
        if recording is not None and admission is not None and recording.writes_complete:
            pattern = self._book.pieces.people(admission).annotations
            self._write(
                recording,
                Stage.RESPONSE_COMPLETE,
                ended_at,
                told=plainly_told(outcome.status),
                annotations=pattern % (outcome.body_bytes, outcome.status),
            )

    def _record_end(self, outcome: Outcome, ended_at: datetime) -> None:
        recording, is_wanted = self._recording, True
        stage = Stage.RESPONSE_COMPLETE
        if recording is None:
            recording = self._book.policy.recording_of(None, self._known_action)
            stage, is_wanted = Stage.RESPONSE_STARTED, recording.writes_started
        elif self._started_at is not None and self._answer is not None:
            self._write_started(recording, outcome.status)
        if isinstance(self._refusal, InternalError):
            stage, is_wanted = Stage.PANIC, recording.writes_panic
        elif stage is Stage.RESPONSE_COMPLETE:
            is_wanted = recording.writes_complete
        if is_wanted:
            self._write_end(recording, stage, outcome, ended_at)

    def _write_started(self, recording: Recording, status: int) -> None:
        if self._started_at is not None:
            told = tell(self._heard(status), recording, self._known_action)
            annotations = annotations_text(
                self._admission, self._refusal, reviews=self._reviews, ending=None
            )
            stage = Stage.RESPONSE_STARTED
            self._write(recording, stage, self._started_at, told=told, annotations=annotations)

    def _write_end(
        self, recording: Recording, stage: Stage, outcome: Outcome, ended_at: datetime
    ) -> None:
        heard = self._heard(outcome.status)
        told = tell(heard, recording, self._known_action)
        ending = Ending(
            outcome.status if heard.refusal is None else 0,
            outcome.body_bytes,
            breakage(heard, self._refusal, is_complete=outcome.is_complete),
            told.lost_request,
            told.lost_response,
            latencies_text(self._latencies(ended_at), verb=self._known_action.verb),
        )
        annotations = annotations_text(
            self._admission, self._refusal, reviews=self._reviews, ending=ending
        )
        self._write(recording, stage, ended_at, told=told, annotations=annotations)

    def _heard(self, status: int) -> Heard:
        refusal = self._refusal
        if refusal is not None and status not in (0, refusal.code):
            refusal = None  # It came too late to be told: the answer had begun.
        return Heard(status, refusal, self._body, self._answer)

    def _write(
        self,
        recording: Recording,
        stage: Stage,
        moment: datetime,
        *,
        told: Told = _NOTHING_TOLD,
        annotations: str = "",
    ) -> None:
        book, request, asked = self._book, self._request, self._asked_for
        # The first event is written before anything is decided, so it says nothing of a decision.
        known_by = self._admission or self._caller
        user, decision = "{}", ""
        if known_by is not None:
            user, decision, _ = book.pieces.people(known_by)
        stamp = book.pieces.timestamps.of
        event = EventText(
            recording.level_text,
            quoted(self.audit_id.decode("ascii")),
            stage,
            asked.request,
            user,
            decision,
            book.pieces.origin(request.headers, self._peer.address),
            asked.object_reference if told.object_reference is None else told.object_reference,
            told.response,
            told.bodies,
            stamp(self._received_at),
            stamp(moment),
            annotations,
        )
        book.sink.write(event_line(event))

    @property
    def _asked_for(self) -> RequestPieces:
        if self._asked is None:
            request = self._request
            pieces = self._book.pieces
            self._asked = pieces.request(self._action, request.method, request.target)
        return self._asked

    def _latencies(self, ended_at: datetime) -> Latencies:
        admission, called, decided = self._admission, self._called_after, self._decided_after
        impersonation = None
        if (admission is not None and admission.mode is not None) or self._reviews:
            impersonation = None if called is None or decided is None else decided - called
        return Latencies(ended_at - self._received_at, called, impersonation)

    @property
    def _known_action(self) -> Action:
        """What the request does, or as much as can be said of what we cannot read."""
        if self._action is not None:
            return self._action
        path = self._request.target.partition(b"?")[0].decode("utf-8", "replace")
        return Action(self._request.method.decode("ascii").lower(), path)
