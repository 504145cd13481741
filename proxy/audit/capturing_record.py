"""What a trail hears of its exchange, as far as its audit events need it."""

from collections.abc import Sequence
from http import HTTPStatus

from proxy.audit.body_capture import (
    HeardBody,
    OverheardReceiver,
    begin_answer,
    begin_request,
)
from proxy.audit.event_details import EqualEvent
from proxy.audit.request_record import Recorder, Trail
from proxy.audit.state import AuditBook
from proxy.core.audit.event import quoted
from proxy.core.audit.fragments import RequestPieces
from proxy.core.audit.objects import has_response_object
from proxy.core.audit.policy import Recording
from proxy.core.http.headers import Header
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import ANONYMOUS, Caller
from proxy.wire.exchange import ExchangeObserver, Peer, RequestReceiver
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead

_READING = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_FIRST_FAILURE = HTTPStatus.BAD_REQUEST.value


class ListeningTrail(Trail):
    """A trail that knows how much is wanted, and hears that as it passes."""

    __slots__ = (
        "_answer",
        "_asked",
        "_body",
        "_book",
        "_equal",
        "_received_at",
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
        self._received_at = recorder.wall_clock()
        self._book = book
        self._recording: Recording | None = None
        self._equal: EqualEvent | None = None
        self._asked: RequestPieces | None = None
        self._started_at: int | None = None
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
        super().is_called_by(caller)
        self._look_up(caller)

    @property
    def _id_text(self) -> str:
        return quoted(self.audit_id.decode("ascii"))

    def _look_up(self, caller: Caller) -> None:
        recording = self._book.policy.recording_of(caller.identity, self._known_action)
        self._recording = recording
        if recording.writes_received:
            self._has_come(recording)

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        self._reviews = count

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

    def wants_answer(self, status: int) -> bool:
        """Tell whether anything of a whole answer is recorded besides its status and its length."""
        recording = self._recording
        if recording is None:
            return True
        if recording.is_silent:
            return False
        if status >= _FIRST_FAILURE or recording.has_response_body:
            return True
        # What is equal to a plain one is plain: it reads, and does not last.
        if self._equal is not None:
            return False
        return self._request.method not in _READING or self._asked_for.is_long_running

    def hears_body(self, status: int) -> bool:
        """Tell whether anything of the body is to be heard: to be recorded, or a Status."""
        recording = self._recording
        if recording is None:
            return True
        may_tell = status >= _FIRST_FAILURE or self._request.method not in _READING
        return not recording.is_silent and (may_tell or recording.has_response_body)

    def answer_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Hear of the answer's head; that a long one has begun is an event of its own.

        If that event needs more of the answer, it is written at the end, with the time of now.
        """
        recording = self._recording
        if recording is None:
            return self._hears_answer(None, status, headers, payload)
        if recording.is_silent:
            return False
        is_heard = self.hears_body(status) and self._hears_answer(
            recording, status, headers, payload
        )
        is_long = self._asked_for.is_long_running or status == SWITCHING_PROTOCOLS
        if is_long and recording.writes_started:
            self._started_at = self._recorder.wall_clock()
            if not is_heard:
                self._has_begun(recording, status)
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
        if not has_response_object(self._known_action, status):
            return False
        is_whole = recording is None or recording.has_response_body
        limit = self._book.body_bytes
        self._answer = answer = begin_answer(headers, payload, is_whole=is_whole, limit=limit)
        return answer is not None and answer.media.is_json

    def _has_come(self, recording: Recording) -> None:
        """Write down that a request has come, if anybody does."""

    def _has_begun(self, recording: Recording, status: int) -> None:
        """Write down that an answer has begun, if anybody does."""

    @property
    def _is_authenticated(self) -> bool:
        """Whether the caller has shown a credential: one without leaves less to be written."""
        return self._caller is not None and self._caller.identity.name != ANONYMOUS

    @property
    def _asked_for(self) -> RequestPieces:
        if self._asked is None:
            request, pieces = self._request, self._book.pieces
            tell = pieces.request if self._is_authenticated else pieces.unauthenticated_request
            self._asked = tell(self._action, request.method, request.target)
        return self._asked

    @property
    def _known_action(self) -> Action:
        """What the request does, or as much as can be said of what we cannot read."""
        if self._action is not None:
            return self._action
        path = self._request.target.partition(b"?")[0].decode("utf-8", "replace")
        return Action(self._request.method.decode("ascii").lower(), path)
