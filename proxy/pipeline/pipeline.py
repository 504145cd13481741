"""THE REQUEST PATH: what happens to every request, top to bottom, and the only error boundary.

Each stage returns a value that the next one needs. Forwarding takes an Admission, which only the
decision core makes, so there is no way down that skips the decision.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from proxy.concurrency.task_set import Tasks
from proxy.core.audit.annotations import adopted_audit_id
from proxy.core.errors import InternalError, Refusal, TooManyRequests
from proxy.core.http.status import refusal_response
from proxy.core.impersonation.cache_keys import RepeatableDecision
from proxy.core.impersonation.permit import Admission
from proxy.core.requestinfo.request_info import (
    Action,
    Outline,
    is_endless,
    outline_action,
    whole_action,
)
from proxy.core.requestinfo.timeout import check_timeout
from proxy.core.userinfo import ANONYMOUS, Caller, Identity
from proxy.pipeline.stages import (
    AuditRoom,
    CallerFinder,
    Decisions,
    Places,
    Recorder,
    RequestForwarder,
    Trail,
)
from proxy.telemetry.logs import fields
from proxy.wire.exchange import ClientExchange

log = logging.getLogger(__name__)

_MOST_NOTES = 32


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk to the end, and what of it is the same for every equal request of a connection.

    It permits nothing: who is calling is asked again, and so is whether that caller may.
    """

    action: Action
    caller: Caller
    recall_caller: Callable[[], Caller | None]
    decision: RepeatableDecision


class Pipeline:
    """The walk of a request through the rooms."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        authenticator: CallerFinder,
        in_flight: Places,
        decisions: Decisions,
        forwarder: RequestForwarder,
        tasks: Tasks,
    ) -> None:
        self._recorder = recorder
        self._authenticator = authenticator
        self._in_flight = in_flight
        # The same for as long as we are: who decides otherwise is another pipeline.
        self._decisions = decisions
        self.audit_room: AuditRoom | None = None
        self._forwarder = forwarder
        self._tasks = tasks

    def begin(self, exchange: ClientExchange) -> None:
        """Serve a request; at once if nothing has to be waited for."""
        notes = exchange.request.notes
        if notes is not None:
            walk = notes.get(self)
            if isinstance(walk, Walk) and self._repeat(exchange, walk):
                return
        self._start(exchange, self._serve(exchange))

    def refuse(self, exchange: ClientExchange, refusal: Refusal) -> None:
        """Answer a request that could not even be read."""
        self._answer(exchange, self._open(exchange, None), refusal)

    def _start(self, exchange: ClientExchange, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.start_now(work)
        if task is not None:
            exchange.when_gone(task.cancel)

    def _repeat(self, exchange: ClientExchange, walk: Walk) -> bool:
        """Walk once more, if each answer on the way is at hand; else do nothing and say so.

        The head is equal to one that was walked with, byte for byte, and the caller is the very
        same value. So all that is left to ask is what time, other requests or a reload may have
        changed.
        """
        admission = self._admission_again(walk)
        if admission is None:
            return False
        trail = self._recorder.open(exchange.request, exchange.peer, None)
        exchange.when_ended(trail.ended)
        if self._recorder.observes:
            exchange.observe(trail.observer)
        try:
            self._in_flight.enter(exchange, walk.action, walk.caller)
            trail.is_admitted_again(walk.action, walk.caller, admission)
            if not self._forwarder.forward_at_once(
                exchange,
                admission,
                audit_id=trail.audit_id,
                refuse=lambda refusal: self._answer(exchange, trail, refusal),
            ):
                is_anonymous = walk.caller.identity.name == ANONYMOUS
                exchange.mark_authenticated(is_anonymous=is_anonymous)
                self._start(exchange, self._forward(exchange, admission, trail))
        except TooManyRequests as refusal:
            # Where it stands on the whole way it is known who is calling, and not more.
            trail.acts(walk.action)
            trail.is_called_by(walk.caller)
            self._answer(exchange, trail, refusal)
        except Exception as error:  # noqa: BLE001 - the boundary, see _fail
            self._fail(exchange, trail, error)
        return True

    def _admission_again(self, walk: Walk) -> Admission | None:
        """Return the permit of an equal request if nothing has changed; None in any doubt."""
        if self.audit_room is not None and not self.audit_room.is_free():
            return None
        try:
            caller = walk.recall_caller()
        except Exception:  # noqa: BLE001 - whoever fails here is told so on the whole way
            return None
        return self._decisions.gate.admit_again(walk.decision) if caller is walk.caller else None

    async def _forward(self, exchange: ClientExchange, admission: Admission, trail: Trail) -> None:
        """Forward a repeated request that has to wait for a connection."""
        try:
            await self._forwarder.forward(
                exchange,
                admission,
                audit_id=trail.audit_id,
                is_long_running=False,
                refuse=lambda refusal: self._answer(exchange, trail, refusal),
            )
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail(exchange, trail, error)

    async def _serve(self, exchange: ClientExchange) -> None:
        request = exchange.request
        try:
            trail = self._open(exchange, request.headers.derive(adopted_audit_id))
        except Refusal as refusal:
            self.refuse(exchange, refusal)
            return
        try:
            await self._walk(exchange, trail)
        except asyncio.CancelledError:
            # The connection has ended the wait of a caller that is not authenticated.
            if exchange.refusal is not None and exchange.is_open:
                self._answer(exchange, trail, exchange.refusal)
            raise
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail(exchange, trail, error)

    def _fail(self, exchange: ClientExchange, trail: Trail, error: Exception) -> None:
        """The one boundary: a bug of ours is a 500 and a log line."""
        if not isinstance(error, Refusal):
            log.error(
                "request failed", exc_info=error, extra=fields(audit_id=trail.audit_id.decode())
            )
            error = InternalError("an internal error occurred")
        self._answer(exchange, trail, error)

    async def _walk(self, exchange: ClientExchange, trail: Trail) -> None:
        if self.audit_room is not None and not self.audit_room.is_free():
            await self.audit_room.wait()
        request = exchange.request
        outline = outline_action(request.method, request.target)
        trail.acts(outline.action)
        check_timeout(outline.action, request.target)
        caller = await self._authenticator.authenticate(
            exchange.peer, request.headers, target=request.target, upgrade=request.upgrade
        )
        exchange.mark_authenticated(is_anonymous=caller.identity.name == ANONYMOUS)
        try:
            action = self._whole_action(outline, exchange, trail)
        finally:
            trail.is_called_by(caller)
        self._in_flight.enter(exchange, action, caller)
        wanted = request.headers.derive(self._decisions.read_wanted)
        admission = await self._decisions.gate.admit(
            caller, wanted, action, is_upgrade=request.upgrade is not None, witness=trail
        )
        trail.is_admitted(admission)
        is_long_running = action.is_long_running
        if is_long_running:
            exchange.mark_long_running()
            if is_endless(action, request.target):
                exchange.mark_endless()
        if request.expects_continue:
            exchange.send_continue()
        await self._forwarder.forward(
            exchange,
            admission,
            audit_id=trail.audit_id,
            is_long_running=is_long_running,
            refuse=lambda refusal: self._answer(exchange, trail, refusal),
        )
        if request.notes is not None and not is_long_running:
            self._note(exchange, action, caller, wanted)

    def _whole_action(self, outline: Outline, exchange: ClientExchange, trail: Trail) -> Action:
        """Return all that the request does: long selectors are read for known callers only."""
        if outline.is_whole:
            return outline.action
        request, most_terms = exchange.request, self._decisions.selector_terms
        action = whole_action(outline, request.method, request.target, most_terms=most_terms)
        trail.acts(action)
        return action

    def _note(
        self, exchange: ClientExchange, action: Action, caller: Caller, wanted: Identity | None
    ) -> None:
        """Remember a walk that was made to its end, if one like it can be made more easily."""
        request = exchange.request
        decision = self._decisions.gate.repeatable(caller, wanted, action)
        if request.notes is None:
            return
        if decision is None or request.headers.derive(adopted_audit_id) is not None:
            request.notes.pop(self, None)
        else:
            if len(request.notes) >= _MOST_NOTES:
                request.notes.clear()  # of rooms that a reload has replaced long ago
            recall_caller = self._authenticator.recaller(exchange.peer, request.headers)
            request.notes[self] = Walk(action, caller, recall_caller, decision)

    def _open(self, exchange: ClientExchange, audit_id: bytes | None) -> Trail:
        trail = self._recorder.open(exchange.request, exchange.peer, audit_id)
        exchange.when_ended(trail.ended)
        if self._recorder.observes:
            exchange.observe(trail.observer)
        return trail

    def _answer(self, exchange: ClientExchange, trail: Trail, refusal: Refusal) -> None:
        # Its frames refer to the trail, which refers to the refusal: a cycle that would keep the
        # head, up to 1 MB, until the garbage collector comes.
        refusal.__traceback__ = None
        trail.is_refused(refusal)
        if exchange.has_started:
            exchange.abort()
            return
        headers, body = refusal_response(
            refusal, exchange.request.headers, exchange.request.target, audit_id=trail.audit_id
        )
        exchange.respond(refusal.code, headers, body)
