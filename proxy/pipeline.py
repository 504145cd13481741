"""THE REQUEST PATH: what happens to every request, top to bottom, and the only error boundary.

Each stage returns a value that the next one needs. Forwarding takes an Admission, which only the
decision core makes, so there is no way down that skips the decision.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.action import Action, parse_action
from proxy.core.admission import Admission
from proxy.core.audit_id import adopted_audit_id
from proxy.core.endless import is_endless
from proxy.core.errors import InternalError, Refusal
from proxy.core.header_lines import Header, HeaderLines
from proxy.core.identity import Caller, Identity
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


@dataclass(frozen=True, slots=True)
class Decisions:
    """How requests are judged; replaced as a whole when the rules change."""

    read_wanted: Callable[[Sequence[Header]], Identity | None]
    gate: DecisionGate


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
        task = self._tasks.start_now(self._serve(exchange))
        if task is not None:
            exchange.when_gone(task.cancel)

    def refuse(self, exchange: ClientExchange, refusal: Refusal) -> None:
        """Answer a request that could not even be read."""
        self._answer(exchange, self._open(exchange, None), refusal)

    async def _serve(self, exchange: ClientExchange) -> None:
        request = exchange.request
        try:
            trail = self._open(exchange, request.headers.derive(adopted_audit_id))
        except Refusal as refusal:
            self.refuse(exchange, refusal)
            return
        try:
            await self._walk(exchange, trail)
        except Refusal as refusal:
            self._answer(exchange, trail, refusal)
        except Exception:  # The one boundary: a bug of ours is a 500 and a log line.
            log.exception("request failed", extra=fields(audit_id=trail.audit_id.decode()))
            self._answer(exchange, trail, InternalError("an internal error occurred"))

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
