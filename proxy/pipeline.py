"""THE REQUEST PATH: what happens to every request, top to bottom, and the only error boundary.

Each stage returns a value that the next one needs. Forwarding takes an Admission, which only the
decision core makes, so there is no way down that skips the decision.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from proxy.core.action import Action, parse_action
from proxy.core.admission import Admission
from proxy.core.audit_id import adopted_audit_id
from proxy.core.endless import is_endless
from proxy.core.errors import InternalError, Refusal
from proxy.core.header_lines import Header, HeaderLines
from proxy.core.identity import Caller, Identity
from proxy.core.repeatable_decision import RepeatableDecision
from proxy.core.request_timeout import check_timeout
from proxy.core.status import refusal_response
from proxy.telemetry.logs import fields
from proxy.wire.exchange import ClientExchange, ExchangeObserver, Outcome
from proxy.wire.head import RequestHead
from proxy.wire.peer import Peer
from proxy.wire.tasks import Tasks

log = logging.getLogger(__name__)


class Trail(Protocol):
    """The record of one request; told each fact once, as soon as it is known."""

    audit_id: bytes

    @property
    def observer(self) -> ExchangeObserver | None:
        """Who is to hear what passes, if anybody."""
        ...

    def acts(self, action: Action) -> None:
        """Learn what the request does."""
        ...

    def is_called_by(self, caller: Caller) -> None:
        """Learn who is calling."""
        ...

    def is_reviewed(self, count: int) -> None:
        """Learn how many reviews the decision took, if it took any."""
        ...

    def is_admitted(self, admission: Admission) -> None:
        """Learn who the request becomes."""
        ...

    def is_admitted_again(self, action: Action, caller: Caller, admission: Admission) -> None:
        """Learn all of that at once."""
        ...

    def is_refused(self, refusal: Refusal) -> None:
        """Learn why the request goes no further."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """Learn how it ended, and write it down."""
        ...


class Recorder(Protocol):
    """Keeps the trails."""

    def open(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> Trail:
        """Start a trail under the client's id or a new one."""
        ...


class CallerFinder(Protocol):
    """Stage: who is calling?"""

    async def authenticate(
        self, peer: Peer, headers: HeaderLines, *, target: bytes, upgrade: bytes | None
    ) -> Caller:
        """Return the caller or refuse."""
        ...

    def recall(self, peer: Peer, headers: HeaderLines) -> Caller | None:
        """Return the caller of a plain request if nobody has to be asked; None in doubt."""
        ...


class Places(Protocol):
    """Stage: is there a place for one more?"""

    def enter(self, exchange: ClientExchange, action: Action, caller: Caller) -> None:
        """Take a place until the exchange ends, or refuse."""
        ...


class AuditRoom(Protocol):
    """Stage: can what happens be written down? Comes first: all that follows may be an event."""

    def is_free(self) -> bool:
        """Tell whether nobody has to wait."""
        ...

    async def wait(self) -> None:
        """Return when the request may go on, or refuse."""
        ...


class DecisionGate(Protocol):
    """Stage: may the caller act as that identity, for this action?"""

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool,
        witness: Trail,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        ...

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal plain request can be admitted again, if at all."""
        ...

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit to forward if it would come out the same; None in doubt."""
        ...


@dataclass(frozen=True, slots=True)
class Decisions:
    """How requests are judged; replaced as a whole when the rules change."""

    read_wanted: Callable[[Sequence[Header]], Identity | None]
    gate: DecisionGate


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk to the end, and what of it is the same for every equal request of a connection.

    It permits nothing: who is calling is asked again, and so is whether that caller may.
    """

    decisions: Decisions
    action: Action
    caller: Caller
    decision: RepeatableDecision


class RequestForwarder(Protocol):
    """Stage: carry it out."""

    async def forward(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        is_long_running: bool,
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Start relaying; the answer flows without the pipeline."""
        ...

    def forward_at_once(
        self,
        exchange: ClientExchange,
        admission: Admission,
        *,
        audit_id: bytes,
        refuse: Callable[[Refusal], None],
    ) -> bool:
        """Start relaying a request that takes not long, unless something has to be waited for."""
        ...


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
        self.decisions = decisions
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
        if walk.decisions is not self.decisions:
            return False
        if self.audit_room is not None and not self.audit_room.is_free():
            return False
        if self._authenticator.recall(exchange.peer, exchange.request.headers) is not walk.caller:
            return False
        admission = walk.decisions.gate.admit_again(walk.decision)
        if admission is None:
            return False
        trail = self._open(exchange, None)
        trail.is_admitted_again(walk.action, walk.caller, admission)
        try:
            self._in_flight.enter(exchange, walk.action, walk.caller)
            if not self._forwarder.forward_at_once(
                exchange,
                admission,
                audit_id=trail.audit_id,
                refuse=lambda refusal: self._answer(exchange, trail, refusal),
            ):
                self._start(exchange, self._forward(exchange, admission, trail))
        except Exception as error:  # noqa: BLE001 - the boundary, see _fail
            self._fail(exchange, trail, error)
        return True

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
        decisions = self.decisions  # one set for the whole walk, whatever a reload does meanwhile
        action = parse_action(request.method, request.target)
        trail.acts(action)
        check_timeout(action, request.target)
        caller = await self._authenticator.authenticate(
            exchange.peer, request.headers, target=request.target, upgrade=request.upgrade
        )
        trail.is_called_by(caller)
        self._in_flight.enter(exchange, action, caller)
        wanted = request.headers.derive(decisions.read_wanted)
        admission = await decisions.gate.admit(
            caller, wanted, action, is_upgrade=request.upgrade is not None, witness=trail
        )
        trail.is_admitted(admission)
        is_long_running = action.is_long_running
        if is_long_running and is_endless(action, request.target):
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
            self._note(request, decisions, action, caller, wanted)

    def _note(
        self,
        request: RequestHead,
        decisions: Decisions,
        action: Action,
        caller: Caller,
        wanted: Identity | None,
    ) -> None:
        """Remember a walk that was made to its end, if one like it can be made more easily."""
        decision = decisions.gate.repeatable(caller, wanted, action)
        if request.notes is None:
            return
        if decision is None or request.headers.derive(adopted_audit_id) is not None:
            request.notes.pop(self, None)
        else:
            request.notes[self] = Walk(decisions, action, caller, decision)

    def _open(self, exchange: ClientExchange, audit_id: bytes | None) -> Trail:
        trail = self._recorder.open(exchange.request, exchange.peer, audit_id)
        exchange.when_ended(trail.ended)
        if trail.observer is not None:
            exchange.observe(trail.observer)
        return trail

    def _answer(self, exchange: ClientExchange, trail: Trail, refusal: Refusal) -> None:
        trail.is_refused(refusal)
        if exchange.has_started:
            exchange.abort()
            return
        headers, body = refusal_response(
            refusal, exchange.request.headers, exchange.request.target, audit_id=trail.audit_id
        )
        exchange.respond(refusal.code, headers, body)
