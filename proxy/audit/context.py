"""The audit events of one request: written at each stage as far as the policy wants them."""

from datetime import timedelta
from http import HTTPStatus
from typing import NamedTuple

from proxy.audit.capturing_record import CapturingRecord
from proxy.audit.event_details import (
    CaptureLimit,
    EventDetails,
    EventTemplate,
    ExchangeSummary,
    event_details,
    incomplete_reason,
)
from proxy.core.audit.annotations import (
    LONG,
    Latencies,
    ResponseOutcome,
    format_annotations,
    format_latencies,
)
from proxy.core.audit.event import (
    PLAIN_LINE,
    EventFields,
    Stage,
    event_line,
)
from proxy.core.audit.fragments import UserFragments
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.errors import (
    AuditUnavailable,
    BadRequest,
    Forbidden,
    InternalError,
    RequestInfoError,
    StatusError,
)
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.exchange import ExchangeOutcome

_NOTHING_TOLD = EventDetails()
_NOBODY = UserFragments("{}", "", "")
_FIRST_FINAL_STATUS = HTTPStatus.OK.value
_LONG_SECONDS = LONG.total_seconds()


class _Facts(NamedTuple):
    """What the annotations of an event tell."""

    permit: Permit | None = None
    error: StatusError | None = None
    reviews: int = 0
    ending: ResponseOutcome | None = None
    wanted_user: UserInfo | None = None


_NO_FACTS = _Facts()


class AuditContext(CapturingRecord):
    """A trail that leaves events.

    Until somebody is authenticated there is nobody whom a rule could name. Whatever is answered
    before that leaves one event, of the stage ResponseStarted, as natively.
    """

    __slots__ = ()

    def set_cached_permit(self, request_info: RequestInfo, caller: Caller, permit: Permit) -> None:
        """Learn it all at once; how much is recorded is known from an equal request, if at all."""
        self._request_info, self._caller = request_info, caller
        notes, state = self._request.notes, self._state
        known = notes.get(state) if notes else None
        if (
            isinstance(known, EventTemplate)
            and known.permit is permit
            and known.policy is state.policy
        ):
            self._equal, self._audit_config = known, known.audit_config
            if known.audit_config.writes_received:
                self._write_received(known.audit_config)
        else:
            self._look_up(caller)
        # The last of all: the first event says nothing of a decision.
        self._permit = permit
        self._called_after = self._decided_after = self._recorder.clock() - self._opened_at

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Write down who did what as whom, and what came of it."""
        # What a request does must be known before it can be audited: the API server, too, answers
        # what it cannot read before its audit begins. Our own log still has its line. And what is
        # refused because events cannot be stored must not fill the buffer that those of requests
        # under way still need; it is counted.
        recorder = self._recorder
        ended_at, took = recorder.wall_clock(), recorder.clock() - self._opened_at
        if self._is_plain(outcome, took):
            self._record_plain_end(outcome, ended_at)
        elif not isinstance(self._error, RequestInfoError | AuditUnavailable):
            self._write_completed(outcome, ended_at)
        self._log(outcome, ended_at, took)

    def _drop_lines(self) -> None:
        """Keep them: every event tells what they say of where a request comes from."""

    def _is_plain(self, outcome: ExchangeOutcome, took: float) -> bool:
        """Tell whether nothing special is to be told of a request, as of nearly all of them."""
        return (
            self._permit is not None
            and self._error is None
            and self._answer is None
            and self._body is None
            and self._reviews == 0
            and outcome.is_complete
            and outcome.status >= _FIRST_FINAL_STATUS
            and took <= _LONG_SECONDS
        )

    def _record_plain_end(self, outcome: ExchangeOutcome, ended_at: int) -> None:
        """Do as `_record_end` does, quicker; a test holds that both write the same."""
        equal = self._equal or self._note_event()
        if equal is None:
            self._write_completed(outcome, ended_at)
            return
        if not equal.audit_config.writes_complete:
            return
        state, status = self._state, outcome.status
        received, ended = state.fragments.timestamps.format_pair(self._received_at, ended_at)
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
        state.sink.write(line)

    def _note_event(self) -> EventTemplate | None:
        """Return what plain events of equal requests have in common, and remember it for them.

        None if something is cut in them: that is to be told and counted, so they are not plain.
        """
        audit_config, permit, notes = self._audit_config, self._permit, self._request.notes
        if audit_config is None or permit is None:
            return None
        state, asked = self._state, self._asked_for
        fragments = state.fragments
        user, decision, annotations, cuts = fragments.people(permit)
        if cuts or asked.cuts:
            return None
        constant = (
            asked.request,
            user,
            decision,
            fragments.origin(self._request.headers, self._peer.address),
            asked.object_reference,
        )
        request, user, decision, origin, named = (text.replace("%", "%%") for text in constant)
        pattern = PLAIN_LINE % (
            audit_config.level_text,
            request,
            user,
            decision,
            origin,
            named,
            annotations,
        )
        equal = EventTemplate(permit, state.policy, audit_config, pattern.encode())
        if notes:
            notes[state] = equal
        return equal

    def _write_completed(self, outcome: ExchangeOutcome, ended_at: int) -> None:
        audit_config, is_wanted = self._audit_config, True
        stage = Stage.RESPONSE_COMPLETE
        if audit_config is None:
            audit_config = self._state.policy.evaluate(None, self._known_action)
            stage, is_wanted = Stage.RESPONSE_STARTED, audit_config.writes_started
        elif self._started_at is not None and self._answer is not None:
            self._write_started(audit_config, outcome.status)
        if isinstance(self._error, InternalError):
            stage, is_wanted = Stage.PANIC, audit_config.writes_panic
        elif stage is Stage.RESPONSE_COMPLETE:
            is_wanted = audit_config.writes_complete
        if is_wanted:
            self._write_end(audit_config, stage, outcome, ended_at)

    def _write_received(self, audit_config: RequestAuditConfig) -> None:
        """Write the first event. Nothing is decided yet, so it says nothing of a decision."""
        self._write(audit_config, Stage.REQUEST_RECEIVED, self._received_at)

    def _write_started(self, audit_config: RequestAuditConfig, status: int) -> None:
        """Write the event of an answer that lasts."""
        if self._started_at is not None:
            details = self._told(self._heard(status), audit_config)
            facts = _Facts(self._permit, self._error, self._reviews)
            self._write(audit_config, Stage.RESPONSE_STARTED, self._started_at, details, facts)

    def _write_end(
        self,
        audit_config: RequestAuditConfig,
        stage: Stage,
        outcome: ExchangeOutcome,
        ended_at: int,
    ) -> None:
        summary = self._heard(outcome.status)
        details = self._told(summary, audit_config)
        ending = ResponseOutcome(
            outcome.status if summary.error is None else summary.error.upstream_code,
            outcome.body_bytes,
            incomplete_reason(summary, self._error, is_complete=outcome.is_complete),
            details.lost_request,
            details.lost_response,
            format_latencies(self._latencies(ended_at), verb=self._known_action.verb),
        )
        wanted_user = self._denied_identity()
        facts = _Facts(self._permit, self._error, self._reviews, ending, wanted_user)
        self._write(audit_config, stage, ended_at, details, facts)

    def _told(self, summary: ExchangeSummary, audit_config: RequestAuditConfig) -> EventDetails:
        limits = self._state.fragments.limits
        known = limits.authenticated if self._is_authenticated else limits.unauthenticated
        room = CaptureLimit(known.message, self._state.body_bytes)
        return event_details(summary, audit_config, self._known_action, room)

    def _denied_identity(self) -> UserInfo | None:
        """Return whom a request that we forbade has asked for."""
        if self._permit is not None or not isinstance(self._error, Forbidden):
            return None
        try:
            return parse_impersonation_headers(self._request.headers)
        except BadRequest:
            return None

    def _heard(self, status: int) -> ExchangeSummary:
        error = self._error
        if error is not None and status not in (0, error.code):
            error = None  # It came too late to be told: the answer had begun.
        return ExchangeSummary(status, error, self._body, self._answer)

    def _write(
        self,
        audit_config: RequestAuditConfig,
        stage: Stage,
        moment: int,
        details: EventDetails = _NOTHING_TOLD,
        facts: _Facts = _NO_FACTS,
    ) -> None:
        state, request, asked = self._state, self._request, self._asked_for
        known_by = self._permit or self._caller
        people = _NOBODY if known_by is None else state.fragments.people(known_by)
        received, stamped = state.fragments.timestamps.format_pair(self._received_at, moment)
        annotations = format_annotations(
            facts.permit,
            facts.error,
            reviews=facts.reviews,
            ending=facts.ending,
            wanted_user=facts.wanted_user,
            cuts=asked.cuts + people.cuts + details.cuts,
        )
        event = EventFields(
            audit_config.level_text,
            self._id_text,
            stage,
            asked.request,
            people.user,
            people.decision,
            state.fragments.origin(request.headers, self._peer.address),
            asked.object_reference
            if details.object_reference is None
            else details.object_reference,
            details.response,
            details.bodies,
            received,
            stamped,
            annotations.text,
        )
        if annotations.cuts:
            state.when_truncated()
        state.sink.write(event_line(event))

    def _latencies(self, ended_at: int) -> Latencies:
        permit, called, decided = self._permit, self._called_after, self._decided_after
        impersonation = None
        if (permit is not None and permit.mode is not None) or self._reviews:
            impersonation = None if called is None or decided is None else decided - called
        total = timedelta(microseconds=ended_at // 1000 - self._received_at // 1000)
        return Latencies(total, called, impersonation)
