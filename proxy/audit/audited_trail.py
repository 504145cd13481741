"""The audit events of one request: written at each stage as far as the policy wants them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from http import HTTPStatus

from proxy.audit.book import AuditBook
from proxy.audit.overhearing import HeardBody, OverheardReceiver
from proxy.audit.recorder import Recorder, Trail
from proxy.audit.told import Heard, Told, tell
from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.audit_annotations import Ending, Times, annotations_text, latencies_text
from proxy.core.audit_body import (
    has_request_object,
    has_response_object,
    may_be_status,
    media_type,
)
from proxy.core.audit_event import EventText, Stage, event_line, quoted, timestamp
from proxy.core.audit_pieces import RequestPieces
from proxy.core.audit_policy import Recording
from proxy.core.errors import InternalError, Refusal, UnreadableRequest
from proxy.core.identity import Caller
from proxy.wire.exchange import ExchangeObserver, Outcome, RequestReceiver
from proxy.wire.head import SWITCHING_PROTOCOLS, Header, RequestHead
from proxy.wire.peer import Peer

_READING = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_NAMING = frozenset((b"POST", b"PUT"))
_FIRST_FAILURE = HTTPStatus.BAD_REQUEST.value
_NOTHING_TOLD = Told()


class AuditRecorder(Recorder):
    """Opens trails that leave audit events."""

    def __init__(self, wall_clock: Callable[[], datetime], book: AuditBook) -> None:
        super().__init__(wall_clock)
        self._book = book

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> Trail:
        """Start a trail under the client's id or a new one."""
        return AuditedTrail(self, self._book, request, peer, audit_id or self._new_id())


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
        "_called_at",
        "_decided_at",
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
        self._called_at: datetime | None = None
        self._decided_at: datetime | None = None
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
        self._called_at = self._recorder.wall_clock()
        policy = self._book.policy
        self._recording = recording = policy.recording_of(caller.identity, self._known_action)
        if recording.writes_received:
            self._write(recording, Stage.REQUEST_RECEIVED, self._received_at)

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        self._reviews = count

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        self._admission = admission
        self._decided_at = self._recorder.wall_clock()

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        self._refusal = refusal
        self._decided_at = self._decided_at or self._recorder.wall_clock()

    # --- what passes -----------------------------------------------------------------------

    def overhear(self, receiver: RequestReceiver) -> RequestReceiver:
        """Hear a body that is to be recorded, or that names the object."""
        recording, request = self._recording, self._request
        if recording is None or recording.is_silent or not request.framing.has_body:
            return receiver
        is_wanted = recording.has_request_body or request.method in _NAMING
        if not is_wanted or not has_request_object(self._known_action):
            return receiver
        self._body = HeardBody(media_type(request.headers), limit=self._book.body_bytes)
        return OverheardReceiver(receiver, self._body) if self._body.media.is_json else receiver

    def answer_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Hear of the answer's head; that a long one has begun is an event of its own.

        If that event needs more of the answer, it is written at the end, with the time of now.
        """
        recording = self._recording
        if recording is not None and recording.is_silent:
            return False
        is_heard = self._hears_answer(recording, status, headers, payload)
        if recording is not None and recording.writes_started:
            is_long = self._asked_for.is_long_running or status == SWITCHING_PROTOCOLS
            if is_long:
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
        """Tell whether the answer is an object that is wanted whole, or a Status.

        How much nobody's answer is wanted is not known yet, but it is short and ours.
        """
        is_whole = recording is None or recording.has_response_body
        may_tell = status >= _FIRST_FAILURE or self._request.method not in _READING
        if not (is_whole or may_tell) or not has_response_object(self._known_action, status):
            return False
        media = media_type(headers)
        if not is_whole and not (media.is_json and (not payload or may_be_status(payload))):
            return False
        self._answer = HeardBody(media, limit=self._book.body_bytes)
        if media.is_json:
            self._answer.add(payload)
        return media.is_json

    # --- what is written -------------------------------------------------------------------

    def ended(self, outcome: Outcome) -> None:
        """Write down who did what as whom, and what came of it."""
        # What a request does must be known before it can be audited: the API server, too, answers
        # what it cannot read before its audit begins. Our own log still has its line.
        if not isinstance(self._refusal, UnreadableRequest):
            self._record_end(outcome)
        super().ended(outcome)

    def _record_end(self, outcome: Outcome) -> None:
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
            self._write_end(recording, stage, outcome)

    def _write_started(self, recording: Recording, status: int) -> None:
        if self._started_at is not None:
            told = tell(self._heard(status), recording, self._known_action)
            annotations = annotations_text(
                self._admission, self._refusal, reviews=self._reviews, ending=None
            )
            stage = Stage.RESPONSE_STARTED
            self._write(recording, stage, self._started_at, told=told, annotations=annotations)

    def _write_end(self, recording: Recording, stage: Stage, outcome: Outcome) -> None:
        ended_at, heard = self._recorder.wall_clock(), self._heard(outcome.status)
        told = tell(heard, recording, self._known_action)
        times = Times(self._received_at, self._called_at, self._decided_at, ended_at)
        ending = Ending(
            outcome.status if heard.refusal is None else 0,
            outcome.body_bytes,
            self._breakage(heard, outcome),
            told.lost_request,
            told.lost_response,
            latencies_text(times, verb=self._known_action.verb, impersonates=self._impersonates),
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

    def _breakage(self, heard: Heard, outcome: Outcome) -> str:
        """Say why the answer is not whole, if it is not. A tunnel has no other end."""
        if self._refusal is not None and heard.refusal is None:
            return self._refusal.message
        is_whole = outcome.is_complete or outcome.status == SWITCHING_PROTOCOLS
        return "" if is_whole else "the client has left"

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
        user, decision = ("{}", "") if known_by is None else book.pieces.people(known_by)
        event = EventText(
            recording.level.value,
            quoted(self.audit_id.decode("ascii")),
            stage.value,
            asked.request,
            user,
            decision,
            book.pieces.origin(request.headers, self._peer.address),
            asked.object_reference if told.object_reference is None else told.object_reference,
            told.response,
            told.bodies,
            timestamp(self._received_at),
            timestamp(moment),
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

    @property
    def _impersonates(self) -> bool:
        admission = self._admission
        is_other = admission is not None and admission.mode is not None
        return is_other or self._reviews > 0

    @property
    def _known_action(self) -> Action:
        """What the request does, or as much as can be said of what we cannot read."""
        if self._action is not None:
            return self._action
        path = self._request.target.partition(b"?")[0].decode("utf-8", "replace")
        return Action(self._request.method.decode("ascii").lower(), path)
