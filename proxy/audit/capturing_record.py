"""What a trail hears of its exchange, as far as its audit events need it."""

from collections.abc import Sequence
from http import HTTPStatus

from proxy.audit.body_capture import (
    CapturedBody,
    CapturingReceiver,
    capture_request_body,
    capture_response_body,
)
from proxy.audit.event_details import EventTemplate
from proxy.audit.request_record import RequestRecord, RequestRecorder
from proxy.audit.state import AuditState
from proxy.core.audit.event import quoted
from proxy.core.audit.fragments import RequestFragments
from proxy.core.audit.objects import has_response_object
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.http.headers import Header
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import ANONYMOUS, Caller
from proxy.wire.exchange import ExchangeObserver, Peer, RequestBodyHandler
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead

_READING = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_FIRST_FAILURE = HTTPStatus.BAD_REQUEST.value


class CapturingRecord(RequestRecord):
    """A trail that knows how much is wanted, and hears that as it passes."""

    __slots__ = (
        "_answer",
        "_asked",
        "_audit_config",
        "_body",
        "_equal",
        "_received_at",
        "_reviews",
        "_started_at",
        "_state",
    )

    def __init__(
        self,
        recorder: RequestRecorder,
        state: AuditState,
        request: RequestHead,
        peer: Peer,
        audit_id: bytes,
    ) -> None:
        super().__init__(recorder, request, peer, audit_id)
        self._received_at = recorder.wall_clock()
        self._state = state
        self._audit_config: RequestAuditConfig | None = None
        self._equal: EventTemplate | None = None
        self._asked: RequestFragments | None = None
        self._started_at: int | None = None
        self._reviews = 0
        self._body: CapturedBody | None = None
        self._answer: CapturedBody | None = None

    @property
    def observer(self) -> ExchangeObserver | None:
        """We hear what passes."""
        return self

    # --- what becomes known ----------------------------------------------------------------

    def set_caller(self, caller: Caller) -> None:
        """Learn who is calling, and how much of the request is to be recorded."""
        super().set_caller(caller)
        self._look_up(caller)

    @property
    def _id_text(self) -> str:
        return quoted(self.audit_id.decode("ascii"))

    def _look_up(self, caller: Caller) -> None:
        audit_config = self._state.policy.evaluate(caller.user, self._known_action)
        self._audit_config = audit_config
        if audit_config.writes_received:
            self._write_received(audit_config)

    def add_reviews(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        self._reviews = count

    # --- what passes -----------------------------------------------------------------------

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        """Hear a body that is to be recorded, or that names the object."""
        audit_config, request = self._audit_config, self._request
        if audit_config is None or audit_config.is_none or not request.framing.has_body:
            return receiver
        limit = self._state.body_bytes
        self._body = body = capture_request_body(
            audit_config, request, self._known_action, limit=limit
        )
        is_heard = body is not None and body.media.is_json
        return CapturingReceiver(receiver, body) if body is not None and is_heard else receiver

    def wants_response(self, status: int) -> bool:
        """Tell whether anything of a whole answer is recorded besides its status and its length."""
        audit_config = self._audit_config
        if audit_config is None:
            return True
        if audit_config.is_none:
            return False
        if status >= _FIRST_FAILURE or audit_config.has_response_body:
            return True
        # What is equal to a plain one is plain: it reads, and does not last.
        if self._equal is not None:
            return False
        return self._request.method not in _READING or self._asked_for.is_long_running

    def captures_body(self, status: int) -> bool:
        """Tell whether anything of the body is to be heard: to be recorded, or a Status."""
        audit_config = self._audit_config
        if audit_config is None:
            return True
        may_tell = status >= _FIRST_FAILURE or self._request.method not in _READING
        return not audit_config.is_none and (may_tell or audit_config.has_response_body)

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Hear of the answer's head; that a long one has begun is an event of its own.

        If that event needs more of the answer, it is written at the end, with the time of now.
        """
        audit_config = self._audit_config
        if audit_config is None:
            return self._hears_answer(None, status, headers, payload)
        if audit_config.is_none:
            return False
        is_heard = self.captures_body(status) and self._hears_answer(
            audit_config, status, headers, payload
        )
        is_long = self._asked_for.is_long_running or status == SWITCHING_PROTOCOLS
        if is_long and audit_config.writes_started:
            self._started_at = self._recorder.wall_clock()
            if not is_heard:
                self._write_started(audit_config, status)
        return is_heard

    def response_data(self, payload: bytes) -> None:
        """Hear the next piece of the answer."""
        if self._answer is not None:
            self._answer.add(payload)

    def _hears_answer(
        self,
        audit_config: RequestAuditConfig | None,
        status: int,
        headers: Sequence[Header],
        payload: bytes,
    ) -> bool:
        """Begin to hear an answer that is wanted whole, or that may be a Status.

        How much nobody's answer is wanted is not known yet, but it is short and ours.
        """
        if not has_response_object(self._known_action, status):
            return False
        is_whole = audit_config is None or audit_config.has_response_body
        limit = self._state.body_bytes
        self._answer = answer = capture_response_body(
            headers, payload, is_whole=is_whole, limit=limit
        )
        return answer is not None and answer.media.is_json

    def _write_received(self, audit_config: RequestAuditConfig) -> None:
        """Write down that a request has come, if anybody does."""

    def _write_started(self, audit_config: RequestAuditConfig, status: int) -> None:
        """Write down that an answer has begun, if anybody does."""

    @property
    def _is_authenticated(self) -> bool:
        """Whether the caller has shown a credential: one without leaves less to be written."""
        return self._caller is not None and self._caller.user.name != ANONYMOUS

    @property
    def _asked_for(self) -> RequestFragments:
        if self._asked is None:
            request, fragments = self._request, self._state.fragments
            tell = (
                fragments.request if self._is_authenticated else fragments.unauthenticated_request
            )
            self._asked = tell(self._request_info, request.method, request.target)
        return self._asked

    @property
    def _known_action(self) -> RequestInfo:
        """What the request does, or as much as can be said of what we cannot read."""
        if self._request_info is not None:
            return self._request_info
        path = self._request.target.partition(b"?")[0].decode("utf-8", "replace")
        return RequestInfo(self._request.method.decode("ascii").lower(), path)
