"""Where audit events go: a file, a webhook, or both, each at its own pace."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from proxy.audit.backends.buffer import BackendMode, EventBuffer
from proxy.audit.backends.log import LogBackend
from proxy.audit.backends.webhook import WebhookBackend
from proxy.core.errors import AuditUnavailable

_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05
# What one request may leave behind: it was received, its answer has begun, it is over.
_EVENTS_OF_A_REQUEST = 3


class AuditBackpressure:
    """Holds requests back while a backend in a blocking mode is slow, or refuses them.

    In `blocking` nobody is refused: whoever has waited long enough goes on, and what the buffer
    cannot take then is lost and counted. In `blocking-strict` whoever has waited long enough, or
    meets a backend that fails, is refused before anything was done.
    """

    def __init__(self, backlogs: Sequence[EventBuffer], when_refused: Callable[[], None]) -> None:
        self._backlogs = [one for one in backlogs if one.mode is not BackendMode.BATCH]
        self._strict = [one for one in backlogs if one.mode is BackendMode.BLOCKING_STRICT]
        self._when_refused = when_refused
        # By their deadlines, the next one first: everybody is equally patient.
        self._waiting: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self._is_looking = False

    def has_capacity(self) -> bool:
        """Tell whether nobody has to wait; costs next to nothing."""
        for backlog in self._backlogs:
            if backlog.is_failing:
                if backlog.mode is BackendMode.BLOCKING_STRICT:
                    return False
            elif not backlog.below_high_water:
                return False
        # Whoever waits goes first: there may be as many as there is room for.
        return not self._waiting

    async def wait(self) -> None:
        """Return when a request may go on; AuditUnavailable when it may not."""
        has_place = False
        if not self._is_refusing():
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[bool] = loop.create_future()
            self._waiting.append((loop.time() + _PATIENCE_SECONDS, turn))
            self._look_later()
            has_place = await turn
        is_too_slow = not has_place and any(not one.below_high_water for one in self._strict)
        if is_too_slow or self._is_refusing():
            self._when_refused()
            raise AuditUnavailable

    def _is_refusing(self) -> bool:
        return any(one.is_failing for one in self._strict)

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Let go whom there is room for, whoever is refused, and whoever has waited too long."""
        self._is_looking = False
        now = asyncio.get_running_loop().time()
        places = len(self._waiting) if self._is_refusing() else self._places()
        while self._waiting and (places > 0 or self._waiting[0][0] <= now):
            _, turn = self._waiting.popleft()
            if not turn.done():  # or else its client has left
                turn.set_result(places > 0)
                places -= 1
        if self._waiting:
            self._look_later()

    def _places(self) -> int:
        # In `blocking` a backend that fails holds nobody up.
        rooms = [one.free_slots for one in self._backlogs if not one.is_failing]
        if not rooms:
            return len(self._waiting)
        return -(-min(rooms) // _EVENTS_OF_A_REQUEST)


Backend = LogBackend | WebhookBackend


class AuditBackends:
    """Every backend there is; none of them holds up another."""

    def __init__(
        self,
        log: LogBackend | None,
        webhook: WebhookBackend | None,
        *,
        when_refused: Callable[[], None],
    ) -> None:
        self.log = log
        self.webhook = webhook
        self.backlogs: Sequence[EventBuffer] = [one.backlog for one in self.all]
        self._when_refused = when_refused
        self._is_closed = False

    @property
    def all(self) -> list[Backend]:
        """Every backend."""
        return [one for one in (self.log, self.webhook) if one is not None]

    @property
    def sink(self) -> "EventBuffer | AuditBackends | None":
        """What takes events; None when nobody does."""
        match self.backlogs:
            case []:
                return None
            case [alone]:
                return alone
            case _:
                return self

    @property
    def backpressure(self) -> AuditBackpressure | None:
        """What is asked before a request is forwarded; None when no backend holds anybody up."""
        if all(backlog.mode is BackendMode.BATCH for backlog in self.backlogs):
            return None
        return AuditBackpressure(self.backlogs, self._when_refused)

    def health_error(self) -> str | None:
        """Tell why requests are refused; None if they are not."""
        for backlog in self.backlogs:
            if backlog.mode is BackendMode.BLOCKING_STRICT and backlog.is_failing:
                return f"{backlog.name} cannot store events"
        return None

    def write(self, line: bytes) -> None:
        """Take one event as a line; returns at once."""
        for backlog in self.backlogs:
            backlog.write(line)

    async def start(self, *, beside: "AuditBackends | None" = None) -> None:
        """Let events go out; OperatorError when a backend cannot be used.

        Those that are `beside` us as well were started before.
        """
        for backend in self._but_those_of(beside):
            if isinstance(backend, LogBackend):
                await asyncio.to_thread(backend.start)
            else:
                await backend.start()

    async def close(self, seconds: float, *, beside: "AuditBackends | None" = None) -> None:
        """Store what is waiting, as far as that many seconds allow; call it when all is over.

        Those that are `beside` us as well go on.
        """
        if self._is_closed:
            return
        self._is_closed = True
        async with asyncio.TaskGroup() as group:
            for backend in self._but_those_of(beside):
                if isinstance(backend, LogBackend):
                    group.create_task(asyncio.to_thread(backend.close, seconds))
                else:
                    group.create_task(backend.close(seconds))

    def skip_flush(self) -> None:
        """Wait no longer, if it is being closed."""
        for backend in self.all:
            backend.skip_flush()

    def _but_those_of(self, others: "AuditBackends | None") -> list[Backend]:
        kept = others.all if others is not None else []
        return [one for one in self.all if one not in kept]
