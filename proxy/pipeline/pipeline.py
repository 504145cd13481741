"""THE REQUEST PATH: the stages of every request, top to bottom, and the only error boundary.

Each stage returns a value that the next one needs. Forwarding takes a `Permit`, which only the
decision core builds, so no path can skip the decision.
"""

import asyncio
import logging

from proxy.audit.backends.union import AuditBackpressure
from proxy.audit.context import AuditContext, RequestRecorder
from proxy.authentication.authenticator import Authenticator
from proxy.authorization.impersonation import ImpersonationStage
from proxy.concurrency.task_set import TaskSet
from proxy.core.audit.annotations import client_audit_id
from proxy.core.errors import InternalError, StatusError
from proxy.core.http.status import status_response
from proxy.core.request_cache import RequestResults
from proxy.core.requestinfo.request_info import (
    PartialRequestInfo,
    RequestInfo,
    complete_request_info,
    is_resumable_stream,
    parse_partial_request_info,
)
from proxy.core.requestinfo.timeout import check_timeout
from proxy.core.userinfo import ANONYMOUS, Caller
from proxy.pipeline.request_cache import reusable_results, store_results
from proxy.serving.limits.max_in_flight import MaxInFlightLimiter
from proxy.telemetry.logs import fields
from proxy.upstream.forwarder import Forwarder
from proxy.wire.exchange import ClientExchange

log = logging.getLogger(__name__)


class Pipeline:
    """Runs the stages of every request, and turns errors into responses."""

    def __init__(
        self,
        *,
        recorder: RequestRecorder,
        authenticator: Authenticator,
        in_flight: MaxInFlightLimiter,
        impersonation: ImpersonationStage,
        forwarder: Forwarder,
        tasks: TaskSet,
    ) -> None:
        self._recorder = recorder
        self._authenticator = authenticator
        self._in_flight = in_flight
        # Never replaced: a reload that changes the rules builds a new pipeline.
        self._impersonation = impersonation
        self.audit_backpressure: AuditBackpressure | None = None
        self._forwarder = forwarder
        self._tasks = tasks

    def handle(self, exchange: ClientExchange) -> None:
        """Serve a request; without a task if nothing has to be awaited."""
        task = self._tasks.start_eager(self._serve(exchange))
        if task is not None:
            exchange.on_disconnect(task.cancel)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Send an error for a request that could not be parsed."""
        self._send_error(exchange, self._begin_audit(exchange, None), error)

    async def _serve(self, exchange: ClientExchange) -> None:
        """Process a request; the error boundary."""
        cache = exchange.request.cache
        try:
            # Results are stored only for heads without an audit ID.
            is_repeated = cache is not None and cache.results is not None
            audit_id = None if is_repeated else client_audit_id(exchange.request.headers)
            audit = self._begin_audit(exchange, audit_id)
        except StatusError as error:
            self.reject(exchange, error)
            return
        try:
            await self._process(exchange, audit, is_cacheable=audit_id is None)
        except asyncio.CancelledError:
            # The connection has cancelled the request of an unauthenticated caller.
            if exchange.error is not None and exchange.is_open:
                self._send_error(exchange, audit, exchange.error)
            raise
        except StatusError as error:
            self._send_error(exchange, audit, error)
        except Exception:  # a bug
            log.exception("request failed", extra=fields(audit_id=audit.audit_id.decode()))
            self._send_error(exchange, audit, InternalError("an internal error occurred"))

    async def _process(
        self, exchange: ClientExchange, audit: AuditContext, *, is_cacheable: bool
    ) -> None:
        """Evaluate a request or reuse the results of an equal one, then forward it."""
        if self.audit_backpressure is not None and not self.audit_backpressure.has_capacity():
            await self.audit_backpressure.wait()
        cache = exchange.request.cache
        results = reusable_results(cache, pipeline=self)
        if results is None:
            results = await self._evaluate(exchange, audit)
        else:
            audit.set_request_info(results.request_info)
            self._admit(exchange, audit, results.request_info, results.authentication.caller)
        permit, request_info = results.authorization.permit, results.request_info
        audit.set_permit(permit)
        if request_info.is_long_running:
            exchange.mark_long_running()
            if is_resumable_stream(request_info, exchange.request.target):
                exchange.mark_stream()
        if exchange.request.expects_continue:
            exchange.send_continue()
        forwarding = self._forwarder.forward(
            exchange,
            permit,
            audit_id=audit.audit_id,
            is_long_running=request_info.is_long_running,
            reject=lambda error: self._send_error(exchange, audit, error),
        )
        if forwarding is not None:
            await forwarding
        if is_cacheable:
            store_results(cache, results)

    async def _evaluate(self, exchange: ClientExchange, audit: AuditContext) -> RequestResults:
        """Authenticate, limit and authorize; raise a StatusError if the request is rejected."""
        request, impersonation = exchange.request, self._impersonation
        parsed = parse_partial_request_info(request.method, request.target)
        audit.set_request_info(parsed.request_info)
        check_timeout(parsed.request_info, request.target)
        authentication = await self._authenticator.authenticate(
            exchange.peer, request.headers, target=request.target, upgrade=request.upgrade
        )
        caller, request_info = authentication.caller, parsed.request_info
        if not parsed.is_complete:
            request_info = self._complete_request_info(exchange, audit, parsed, caller)
        self._admit(exchange, audit, request_info, caller)
        authorization = await impersonation.authorizer.authorize(
            caller,
            impersonation.parse_headers(request.headers),
            request_info,
            is_upgrade=request.upgrade is not None,
            observer=audit,
        )
        return RequestResults(self, request_info, authentication, authorization)

    def _complete_request_info(
        self,
        exchange: ClientExchange,
        audit: AuditContext,
        parsed: PartialRequestInfo,
        caller: Caller,
    ) -> RequestInfo:
        """Parse long selectors, which only authenticated callers may cause."""
        request, max_terms = exchange.request, self._impersonation.selector_terms
        try:
            request_info = complete_request_info(
                parsed, request.method, request.target, max_terms=max_terms
            )
        except StatusError:
            exchange.mark_authenticated(is_anonymous=caller.user.name == ANONYMOUS)
            audit.set_caller(caller)
            raise
        audit.set_request_info(request_info)
        return request_info

    def _admit(
        self,
        exchange: ClientExchange,
        audit: AuditContext,
        request_info: RequestInfo,
        caller: Caller,
    ) -> None:
        """Record the caller, and take a slot until the exchange ends; else raise a StatusError."""
        exchange.mark_authenticated(is_anonymous=caller.user.name == ANONYMOUS)
        audit.set_caller(caller)
        self._in_flight.acquire(exchange, request_info, caller)

    def _begin_audit(self, exchange: ClientExchange, audit_id: bytes | None) -> AuditContext:
        audit = self._recorder.begin(exchange.request, exchange.peer, audit_id)
        exchange.on_complete(audit.finish)
        if audit.observer is not None:
            exchange.set_observer(audit.observer)
        return audit

    def _send_error(
        self, exchange: ClientExchange, audit: AuditContext, error: StatusError
    ) -> None:
        # The traceback's frames refer to the audit context, which refers to the error. This cycle
        # would keep the head, up to 1 MB, in memory until the garbage collector runs.
        error.__traceback__ = None
        audit.set_error(error)
        if exchange.has_started:
            exchange.abort()
            return
        headers, body = status_response(
            error, exchange.request.headers, exchange.request.target, audit_id=audit.audit_id
        )
        exchange.send_response(error.code, headers, body)
