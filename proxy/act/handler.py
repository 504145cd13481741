"""What the hop does with each request: as little as it can."""

import logging
import os
from collections.abc import Callable
from typing import Protocol

from proxy.act.heads import own_authorization
from proxy.core.action import outline_action
from proxy.core.admission import Admission
from proxy.core.audit_id import adopted_audit_id, new_audit_id
from proxy.core.endless import is_endless
from proxy.core.errors import InternalError, Refusal
from proxy.core.status import refusal_response
from proxy.telemetry.logs import fields
from proxy.wire.exchange import ClientExchange
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)


class RequestForwarder(Protocol):
    """Carries a request to the proxy."""

    async def forward(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Start relaying; the answer flows without us."""
        ...


class ActingHandler:
    """Passes every request on as one identity."""

    def __init__(self, admission: Admission, forwarder: RequestForwarder, tasks: Tasks) -> None:
        self._admission = admission
        self._forwarder = forwarder
        self._tasks = tasks

    def begin(self, exchange: ClientExchange) -> None:
        """Pass a request on; at once if a connection is at hand."""
        task = self._tasks.start_now(self._serve(exchange))
        if task is not None:
            exchange.when_gone(task.cancel)

    def refuse(self, exchange: ClientExchange, refusal: Refusal) -> None:
        """Answer a request that could not even be read."""
        self._answer(exchange, new_audit_id(os.urandom(16)), refusal)

    async def _serve(self, exchange: ClientExchange) -> None:
        audit_id = new_audit_id(os.urandom(16))
        try:
            # One id in the application's log, ours and the proxy's.
            audit_id = exchange.request.headers.derive(adopted_audit_id) or audit_id
            await self._pass_on(exchange, audit_id)
        except Refusal as refusal:
            self._answer(exchange, audit_id, refusal)
        except Exception:  # The boundary of this room: a bug of ours is a 500 and a log line.
            log.exception("request failed", extra=fields(audit_id=audit_id.decode()))
            self._answer(exchange, audit_id, InternalError("an internal error occurred"))

    async def _pass_on(self, exchange: ClientExchange, audit_id: bytes) -> None:
        request = exchange.request
        # The proxy behind us authenticates; here every local client is served alike.
        exchange.mark_authenticated(is_anonymous=False)
        # Before the client is told to send its body; the head is written by the same answer.
        request.headers.derive(own_authorization)
        # What the selectors ask for is for the proxy to read.
        action = outline_action(request.method, request.target).action
        is_long_running = action.is_long_running
        if is_long_running:
            exchange.mark_long_running()
            if is_endless(action, request.target):
                exchange.mark_endless()
        if request.expects_continue:
            exchange.send_continue()
        await self._forwarder.forward(
            exchange,
            self._admission,
            audit_id=audit_id,
            is_long_running=is_long_running,
            refuse=lambda refusal: self._answer(exchange, audit_id, refusal),
        )

    def _answer(self, exchange: ClientExchange, audit_id: bytes, refusal: Refusal) -> None:
        log.info(
            "request refused",
            extra=fields(audit_id=audit_id.decode(), code=refusal.code, reason=refusal.message),
        )
        if exchange.has_started:
            exchange.abort()
            return
        headers, body = refusal_response(
            refusal, exchange.request.headers, exchange.request.target, audit_id=audit_id
        )
        exchange.respond(refusal.code, headers, body)
