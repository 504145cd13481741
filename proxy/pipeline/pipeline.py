"""THE REQUEST PATH: the stages of every request, top to bottom, and the only error boundary.

Each stage returns a value that the next one needs. Forwarding takes a `Permit`, which only the
decision core builds, so no path can skip the decision.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from proxy.concurrency.task_set import TaskSet
from proxy.core.audit.annotations import client_audit_id
from proxy.core.errors import InternalError, StatusError
from proxy.core.http.status import status_response
from proxy.core.impersonation.permit import Permit
from proxy.core.request_cache import RequestResults
from proxy.core.requestinfo.request_info import (
    RequestInfo,
    RequestOutline,
    complete_request_info,
    is_resumable_stream,
    parse_outline,
)
from proxy.core.requestinfo.timeout import check_timeout
from proxy.core.userinfo import ANONYMOUS
from proxy.pipeline.stages import (
    AuditContextProtocol,
    AuthenticatorProtocol,
    BackpressureProtocol,
    ForwarderProtocol,
    ImpersonationStage,
    InFlightProtocol,
    RecorderProtocol,
)
from proxy.telemetry.logs import fields
from proxy.wire.exchange import ClientExchange

log = logging.getLogger(__name__)


class Pipeline:
    """Runs the stages of every request, and turns errors into responses."""

    def __init__(
        self,
        *,
        recorder: RecorderProtocol,
        authenticator: AuthenticatorProtocol,
        in_flight: InFlightProtocol,
        decisions: ImpersonationStage,
        forwarder: ForwarderProtocol,
        tasks: TaskSet,
    ) -> None:
        self._recorder = recorder
        self._authenticator = authenticator
        self._in_flight = in_flight
        # Never replaced: a reload that changes the rules builds a new pipeline.
        self._decisions = decisions
        self.audit_backpressure: BackpressureProtocol | None = None
        self._forwarder = forwarder
        self._tasks = tasks

    def handle(self, exchange: ClientExchange) -> None:
        """Serve a request; without a task if nothing has to be awaited."""
        cache = exchange.request.cache
        if cache is not None:
            results = cache.results
            if results is not None and results.pipeline is self and self._replay(exchange, results):
                return
        self._start(exchange, self._serve(exchange))

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Send an error for a request that could not be parsed."""
        self._send_error(exchange, self._begin_audit(exchange, None), error)

    def _start(self, exchange: ClientExchange, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.start_eager(work)
        if task is not None:
            exchange.on_disconnect(task.cancel)

    def _replay(self, exchange: ClientExchange, results: RequestResults) -> bool:
        """Serve a request on the fast path; return False, without any effect, if it cannot be.

        The head is byte-identical to one that was processed before, and the caller is the same
        object. So the only checks left are of state that time, other requests or a reload may have
        changed.
        """
        if not self._is_unchanged(results):
            return False
        caller, permit = results.authentication.caller, results.authorization.permit
        audit = self._recorder.begin(exchange.request, exchange.peer, None)
        exchange.on_complete(audit.finish)
        if audit.observer is not None:
            exchange.observe(audit.observer)
        try:
            audit.set_request_info(results.request_info)
            audit.set_caller(caller)
            self._in_flight.acquire(exchange, results.request_info, caller)
            audit.set_permit(permit)
            if not self._forwarder.try_forward(
                exchange,
                permit,
                audit_id=audit.audit_id,
                reject=lambda status_error: self._send_error(exchange, audit, status_error),
            ):
                exchange.mark_authenticated(is_anonymous=caller.user.name == ANONYMOUS)
                self._start(exchange, self._forward(exchange, permit, audit))
        except Exception as error:  # noqa: BLE001 - the boundary, see _fail
            self._fail(exchange, audit, error)
        return True

    def _is_unchanged(self, results: RequestResults) -> bool:
        """Return whether an equal request would have the same caller and the same permit."""
        if self.audit_backpressure is not None and not self.audit_backpressure.has_capacity():
            return False
        try:
            return results.recheck()
        except Exception:  # noqa: BLE001 - the slow path fails as well, and reports it
            return False

    async def _forward(
        self, exchange: ClientExchange, permit: Permit, audit: AuditContextProtocol
    ) -> None:
        """Forward a repeated request that has to wait for a connection."""
        try:
            await self._forwarder.forward(
                exchange,
                permit,
                audit_id=audit.audit_id,
                is_long_running=False,
                reject=lambda status_error: self._send_error(exchange, audit, status_error),
            )
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail(exchange, audit, error)

    async def _serve(self, exchange: ClientExchange) -> None:
        request = exchange.request
        try:
            audit_id = client_audit_id(request.headers)
            audit = self._begin_audit(exchange, audit_id)
        except StatusError as error:
            self.reject(exchange, error)
            return
        try:
            await self._process(exchange, audit, is_repeatable=audit_id is None)
        except asyncio.CancelledError:
            # The connection has cancelled the request of an unauthenticated caller.
            if exchange.error is not None and exchange.is_open:
                self._send_error(exchange, audit, exchange.error)
            raise
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail(exchange, audit, error)

    def _fail(
        self, exchange: ClientExchange, audit: AuditContextProtocol, error: Exception
    ) -> None:
        """Send the error; an unexpected exception is a bug, logged and sent as 500."""
        if not isinstance(error, StatusError):
            log.error(
                "request failed", exc_info=error, extra=fields(audit_id=audit.audit_id.decode())
            )
            error = InternalError("an internal error occurred")
        self._send_error(exchange, audit, error)

    async def _process(
        self, exchange: ClientExchange, audit: AuditContextProtocol, *, is_repeatable: bool
    ) -> None:
        if self.audit_backpressure is not None and not self.audit_backpressure.has_capacity():
            await self.audit_backpressure.wait()
        request = exchange.request
        outline = parse_outline(request.method, request.target)
        audit.set_request_info(outline.request_info)
        check_timeout(outline.request_info, request.target)
        authentication = await self._authenticator.authenticate(
            exchange.peer, request.headers, target=request.target, upgrade=request.upgrade
        )
        caller = authentication.caller
        exchange.mark_authenticated(is_anonymous=caller.user.name == ANONYMOUS)
        try:
            request_info = self._complete_request_info(outline, exchange, audit)
        finally:
            audit.set_caller(caller)
        self._in_flight.acquire(exchange, request_info, caller)
        wanted_user = self._decisions.parse_headers(request.headers)
        authorization = await self._decisions.authorizer.authorize(
            caller,
            wanted_user,
            request_info,
            is_upgrade=request.upgrade is not None,
            observer=audit,
        )
        audit.set_permit(authorization.permit)
        is_long_running = request_info.is_long_running
        if is_long_running:
            exchange.mark_long_running()
            if is_resumable_stream(request_info, request.target):
                exchange.mark_stream()
        if request.expects_continue:
            exchange.send_continue()
        await self._forwarder.forward(
            exchange,
            authorization.permit,
            audit_id=audit.audit_id,
            is_long_running=is_long_running,
            reject=lambda error: self._send_error(exchange, audit, error),
        )
        if is_repeatable and request.cache is not None and not is_long_running:
            results = RequestResults(self, request_info, authentication, authorization)
            request.cache.results = results if results.is_reusable else None

    def _complete_request_info(
        self, outline: RequestOutline, exchange: ClientExchange, audit: AuditContextProtocol
    ) -> RequestInfo:
        """Return the complete request info; long selectors are parsed after authentication only."""
        if outline.is_complete:
            return outline.request_info
        request, most_terms = exchange.request, self._decisions.selector_terms
        request_info = complete_request_info(
            outline, request.method, request.target, max_terms=most_terms
        )
        audit.set_request_info(request_info)
        return request_info

    def _begin_audit(
        self, exchange: ClientExchange, audit_id: bytes | None
    ) -> AuditContextProtocol:
        audit = self._recorder.begin(exchange.request, exchange.peer, audit_id)
        exchange.on_complete(audit.finish)
        if audit.observer is not None:
            exchange.observe(audit.observer)
        return audit

    def _send_error(
        self, exchange: ClientExchange, audit: AuditContextProtocol, error: StatusError
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
