"""The audit events of one request, written at each stage that the audit policy records."""

from datetime import timedelta
from http import HTTPStatus
from typing import NamedTuple

from proxy.audit.capturing_record import CapturingRecord
from proxy.audit.event_details import (
    CaptureLimit,
    EventDetails,
    ExchangeSummary,
    event_details,
    incomplete_reason,
)
from proxy.core.audit.annotations import (
    SLOW_REQUEST,
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
from proxy.core.request_cache import EventTemplate
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.exchange import ExchangeOutcome

_NO_DETAILS = EventDetails()
_NO_USER = UserFragments("{}", "", "")
_FIRST_FINAL_STATUS = HTTPStatus.OK.value
_LONG_SECONDS = SLOW_REQUEST.total_seconds()


class _AnnotationInputs(NamedTuple):
    """The inputs of an event's annotations."""

    permit: Permit | None = None
    error: StatusError | None = None
    reviews: int = 0
    ending: ResponseOutcome | None = None
    wanted_user: UserInfo | None = None


_NO_ANNOTATION_INPUTS = _AnnotationInputs()


class AuditContext(CapturingRecord):
    """A request record that writes audit events.

    Before authentication there is no user that a policy rule could match. A response sent before
    that writes one event, of stage ResponseStarted, as kube-apiserver does.
    """

    __slots__ = ()

    def set_cached_permit(self, request_info: RequestInfo, caller: Caller, permit: Permit) -> None:
        """Record all facts at once; use the audit config of an equal request if still valid."""
        self._request_info, self._caller = request_info, caller
        cache, state = self._request.cache, self._state
        template = None if cache is None else cache.event_template
        if (
            template is not None
            and template.permit is permit
            and template.policy is state.policy
            and template.fragments is state.fragments
        ):
            self._template, self._audit_config = template, template.audit_config
            if template.audit_config.writes_received:
                self._write_received(template.audit_config)
        else:
            self._evaluate_policy(caller)
        # Set last: the RequestReceived event must not contain a decision.
        self._permit = permit
        self._authenticated_after = self._decided_after = self._recorder.clock() - self._opened_at

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Write the last audit event and the access log line."""
        # A request that cannot be parsed writes no event: kube-apiserver also rejects it before its
        # audit begins. The access log still has its line.
        # A request rejected because events cannot be stored writes no event either. It would fill
        # the buffer that requests in flight still need. It is counted instead.
        recorder = self._recorder
        ended_at, took = recorder.wall_clock(), recorder.clock() - self._opened_at
        if self._is_plain(outcome, took):
            self._write_from_template(outcome, ended_at)
        elif not isinstance(self._error, RequestInfoError | AuditUnavailable):
            self._write_completed(outcome, ended_at)
        self._log(outcome, ended_at, took)

    def _drop_headers(self) -> None:
        """Keep the headers: every event needs them for its source addresses and user agent."""

    def _is_plain(self, outcome: ExchangeOutcome, took: float) -> bool:
        """Return whether the last event fits the template, as for nearly all requests."""
        return (
            self._permit is not None
            and self._error is None
            and self._response_body is None
            and self._request_body is None
            and self._reviews == 0
            and outcome.is_complete
            and outcome.status >= _FIRST_FINAL_STATUS
            and took <= _LONG_SECONDS
        )

    def _write_from_template(self, outcome: ExchangeOutcome, ended_at: int) -> None:
        """Write what `_write_completed` writes, faster; a test asserts that both are equal."""
        template = self._template or self._make_event_template()
        if template is None:
            self._write_completed(outcome, ended_at)
            return
        if not template.audit_config.writes_complete:
            return
        state, status = self._state, outcome.status
        received, ended = state.fragments.timestamps.format_pair(self._received_at, ended_at)
        # On the fast path the proxy has generated the audit ID, which needs no quoting.
        is_generated = template is self._template
        line = template.pattern % (
            b'"%b"' % self.audit_id if is_generated else self._quoted_audit_id.encode(),
            status,
            received.encode(),
            ended.encode(),
            outcome.body_bytes,
            status,
        )
        state.sink.write(line)

    def _make_event_template(self) -> EventTemplate | None:
        """Return the event template of equal plain requests, and cache it for them.

        None if a value is truncated: that is annotated and counted, so the event is not plain.
        """
        audit_config, permit, cache = self._audit_config, self._permit, self._request.cache
        if audit_config is None or permit is None:
            return None
        state, request_fragments = self._state, self._request_fragments
        fragments = state.fragments
        user, decision, annotations, cuts = fragments.users(permit)
        if cuts or request_fragments.cuts:
            return None
        constant = (
            request_fragments.request,
            user,
            decision,
            fragments.origin(self._request.headers, self._peer.address),
            request_fragments.object_reference,
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
        template = EventTemplate(permit, state.policy, fragments, audit_config, pattern.encode())
        if cache is not None and cache.results is not None:
            cache.event_template = template
        return template

    def _write_completed(self, outcome: ExchangeOutcome, ended_at: int) -> None:
        audit_config, is_wanted = self._audit_config, True
        stage = Stage.RESPONSE_COMPLETE
        if audit_config is None:
            audit_config = self._state.policy.evaluate(None, self._known_request_info)
            stage, is_wanted = Stage.RESPONSE_STARTED, audit_config.writes_started
        elif self._started_at is not None and self._response_body is not None:
            self._write_started(audit_config, outcome.status)
        if isinstance(self._error, InternalError):
            stage, is_wanted = Stage.PANIC, audit_config.writes_panic
        elif stage is Stage.RESPONSE_COMPLETE:
            is_wanted = audit_config.writes_complete
        if is_wanted:
            self._write_end(audit_config, stage, outcome, ended_at)

    def _write_received(self, audit_config: RequestAuditConfig) -> None:
        """Write the RequestReceived event; it contains no decision because there is none yet."""
        self._write(audit_config, Stage.REQUEST_RECEIVED, self._received_at)

    def _write_started(self, audit_config: RequestAuditConfig, status: int) -> None:
        """Write the ResponseStarted event of a long-running response."""
        if self._started_at is not None:
            details = self._event_details(self._exchange_summary(status), audit_config)
            facts = _AnnotationInputs(self._permit, self._error, self._reviews)
            self._write(audit_config, Stage.RESPONSE_STARTED, self._started_at, details, facts)

    def _write_end(
        self,
        audit_config: RequestAuditConfig,
        stage: Stage,
        outcome: ExchangeOutcome,
        ended_at: int,
    ) -> None:
        summary = self._exchange_summary(outcome.status)
        details = self._event_details(summary, audit_config)
        ending = ResponseOutcome(
            outcome.status if summary.error is None else summary.error.upstream_code,
            outcome.body_bytes,
            incomplete_reason(summary, self._error, is_complete=outcome.is_complete),
            details.request_omission,
            details.response_omission,
            format_latencies(self._latencies(ended_at), verb=self._known_request_info.verb),
        )
        wanted_user = self._forbidden_user()
        facts = _AnnotationInputs(self._permit, self._error, self._reviews, ending, wanted_user)
        self._write(audit_config, stage, ended_at, details, facts)

    def _event_details(
        self, summary: ExchangeSummary, audit_config: RequestAuditConfig
    ) -> EventDetails:
        limits = self._state.fragments.limits
        values = limits.authenticated if self._is_authenticated else limits.unauthenticated
        limit = CaptureLimit(values.message, self._state.body_bytes)
        return event_details(summary, audit_config, self._known_request_info, limit)

    def _forbidden_user(self) -> UserInfo | None:
        """Return the user that the proxy forbade the request to impersonate, if any."""
        if self._permit is not None or not isinstance(self._error, Forbidden):
            return None
        try:
            return parse_impersonation_headers(self._request.headers)
        except BadRequest:
            return None

    def _exchange_summary(self, status: int) -> ExchangeSummary:
        error = self._error
        if error is not None and status not in (0, error.code):
            error = None  # The client did not receive it: the response had already started.
        return ExchangeSummary(status, error, self._request_body, self._response_body)

    def _write(
        self,
        audit_config: RequestAuditConfig,
        stage: Stage,
        timestamp: int,
        details: EventDetails = _NO_DETAILS,
        facts: _AnnotationInputs = _NO_ANNOTATION_INPUTS,
    ) -> None:
        state, request, request_fragments = self._state, self._request, self._request_fragments
        principal = self._permit or self._caller
        users = _NO_USER if principal is None else state.fragments.users(principal)
        received, stamped = state.fragments.timestamps.format_pair(self._received_at, timestamp)
        annotations = format_annotations(
            facts.permit,
            facts.error,
            reviews=facts.reviews,
            outcome=facts.ending,
            wanted_user=facts.wanted_user,
            cuts=request_fragments.cuts + users.cuts + details.cuts,
        )
        event = EventFields(
            audit_config.level_text,
            self._quoted_audit_id,
            stage,
            request_fragments.request,
            users.user,
            users.decision,
            state.fragments.origin(request.headers, self._peer.address),
            request_fragments.object_reference
            if details.object_reference is None
            else details.object_reference,
            details.response,
            details.bodies,
            received,
            stamped,
            annotations.text,
        )
        if annotations.truncated_values:
            state.when_truncated()
        state.sink.write(event_line(event))

    def _latencies(self, ended_at: int) -> Latencies:
        permit, called, decided = self._permit, self._authenticated_after, self._decided_after
        impersonation = None
        if (permit is not None and permit.mode is not None) or self._reviews:
            impersonation = None if called is None or decided is None else decided - called
        total = timedelta(microseconds=ended_at // 1000 - self._received_at // 1000)
        return Latencies(total, called, impersonation)
