"""The union of the audit backends: a log file, a webhook, or both, each with its own buffer."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from proxy.audit.backends.buffer import BackendMode, EventBuffer
from proxy.audit.backends.log import LogBackend
from proxy.audit.backends.webhook import WebhookBackend
from proxy.core.errors import AuditUnavailable

_MAX_WAIT_SECONDS = 5.0
_CHECK_SECONDS = 0.05
# The stages RequestReceived, ResponseStarted and ResponseComplete.
_EVENTS_PER_REQUEST = 3


class AuditBackpressure:
    """Delays requests while a backend in a blocking mode is slow, or rejects them.

    In `blocking` no request is rejected. After the timeout it proceeds, and events that the buffer
    cannot accept are lost and counted. In `blocking-strict` a request is rejected after the
    timeout, or if a backend fails, before it has any effect.
    """

    def __init__(self, backlogs: Sequence[EventBuffer], when_refused: Callable[[], None]) -> None:
        self._buffers = [buffer for buffer in backlogs if buffer.mode is not BackendMode.BATCH]
        self._strict = [buffer for buffer in backlogs if buffer.mode is BackendMode.BLOCKING_STRICT]
        self._when_refused = when_refused
        # Ordered by deadline, because all requests have the same timeout.
        self._waiting: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self._is_release_scheduled = False

    def has_capacity(self) -> bool:
        """Return whether no request has to wait; cheap enough for every request."""
        for backlog in self._buffers:
            if backlog.is_failing:
                if backlog.mode is BackendMode.BLOCKING_STRICT:
                    return False
            elif not backlog.below_high_water:
                return False
        # Waiting requests come first: they may need all the capacity there is.
        return not self._waiting

    async def wait(self) -> None:
        """Return when a request may proceed; raise AuditUnavailable if it is rejected."""
        has_capacity = False
        if not self._is_rejecting():
            loop = asyncio.get_running_loop()
            released: asyncio.Future[bool] = loop.create_future()
            self._waiting.append((loop.time() + _MAX_WAIT_SECONDS, released))
            self._schedule_release()
            has_capacity = await released
        is_too_slow = not has_capacity and any(
            not buffer.below_high_water for buffer in self._strict
        )
        if is_too_slow or self._is_rejecting():
            self._when_refused()
            raise AuditUnavailable

    def _is_rejecting(self) -> bool:
        return any(buffer.is_failing for buffer in self._strict)

    def _schedule_release(self) -> None:
        if not self._is_release_scheduled:
            self._is_release_scheduled = True
            asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._release)

    def _release(self) -> None:
        """Release requests: as many as there is capacity for, rejected ones, and timed-out ones."""
        self._is_release_scheduled = False
        now = asyncio.get_running_loop().time()
        capacity = len(self._waiting) if self._is_rejecting() else self._capacity()
        while self._waiting and (capacity > 0 or self._waiting[0][0] <= now):
            _, released = self._waiting.popleft()
            if not released.done():  # It is done if the client has disconnected.
                released.set_result(capacity > 0)
                capacity -= 1
        if self._waiting:
            self._schedule_release()

    def _capacity(self) -> int:
        # In `blocking` a failing backend delays no request.
        free = [buffer.free_slots for buffer in self._buffers if not buffer.is_failing]
        if not free:
            return len(self._waiting)
        return -(-min(free) // _EVENTS_PER_REQUEST)


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
        self.buffers: Sequence[EventBuffer] = [backend.buffer for backend in self.backends]
        self._when_refused = when_refused
        self._is_closed = False

    @property
    def backends(self) -> list[Backend]:
        """Return all configured backends."""
        return [backend for backend in (self.log, self.webhook) if backend is not None]

    @property
    def sink(self) -> "EventBuffer | AuditBackends | None":
        """Return the sink for events; None if there is no backend."""
        match self.buffers:
            case []:
                return None
            case [alone]:
                return alone
            case _:
                return self

    @property
    def backpressure(self) -> AuditBackpressure | None:
        """Return the backpressure applied to requests; None if no backend is in a blocking mode."""
        if all(backlog.mode is BackendMode.BATCH for backlog in self.buffers):
            return None
        return AuditBackpressure(self.buffers, self._when_refused)

    def health_error(self) -> str | None:
        """Return why requests are rejected; None if they are not."""
        for backlog in self.buffers:
            if backlog.mode is BackendMode.BLOCKING_STRICT and backlog.is_failing:
                return f"{backlog.name} cannot store events"
        return None

    def write(self, line: bytes) -> None:
        """Accept one event as a line; never blocks."""
        for backlog in self.buffers:
            backlog.write(line)

    async def start(self, *, shared_with: "AuditBackends | None" = None) -> None:
        """Start the backends; raise OperatorError if one cannot be used.

        Backends that are also part of `beside` are already running, and are skipped.
        """
        for backend in self._except_shared_with(shared_with):
            if isinstance(backend, LogBackend):
                await asyncio.to_thread(backend.start)
            else:
                await backend.start()

    async def close(self, seconds: float, *, shared_with: "AuditBackends | None" = None) -> None:
        """Store the buffered events within `seconds`, and stop; call it after the last request.

        Backends that are also part of `beside` keep running.
        """
        if self._is_closed:
            return
        self._is_closed = True
        async with asyncio.TaskGroup() as group:
            for backend in self._except_shared_with(shared_with):
                if isinstance(backend, LogBackend):
                    group.create_task(asyncio.to_thread(backend.close, seconds))
                else:
                    group.create_task(backend.close(seconds))

    def skip_flush(self) -> None:
        """End the wait of `close`, if it is in progress."""
        for backend in self.backends:
            backend.skip_flush()

    def _except_shared_with(self, others: "AuditBackends | None") -> list[Backend]:
        shared = others.backends if others is not None else []
        return [backend for backend in self.backends if backend not in shared]
