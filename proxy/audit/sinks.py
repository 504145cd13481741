"""Where audit events go: a file, a webhook, or both, each at its own pace."""

import asyncio
from collections.abc import Callable, Sequence

from proxy.audit.backlog import Backlog, Mode
from proxy.audit.log_backend import LogBackend
from proxy.audit.room import AuditRoom
from proxy.audit.webhook import WebhookBackend

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
        self.backlogs: Sequence[Backlog] = [one.backlog for one in self.all]
        self._when_refused = when_refused
        self._is_closed = False

    @property
    def all(self) -> list[Backend]:
        """Every backend."""
        return [one for one in (self.log, self.webhook) if one is not None]

    @property
    def sink(self) -> "Backlog | AuditBackends | None":
        """What takes events; None when nobody does."""
        match self.backlogs:
            case []:
                return None
            case [alone]:
                return alone
            case _:
                return self

    @property
    def room(self) -> AuditRoom | None:
        """What is asked before a request is forwarded; None when no backend holds anybody up."""
        if all(backlog.mode is Mode.BATCH for backlog in self.backlogs):
            return None
        return AuditRoom(self.backlogs, self._when_refused)

    def fault(self) -> str | None:
        """Tell why requests are refused; None if they are not."""
        for backlog in self.backlogs:
            if backlog.mode is Mode.BLOCKING_STRICT and backlog.is_failing:
                return f"{backlog.name} cannot store events"
        return None

    def write(self, line: bytes) -> None:
        """Take one event as a line; returns at once."""
        for backlog in self.backlogs:
            backlog.write(line)

    async def start(self, *, beside: "AuditBackends | None" = None) -> None:
        """Let events go out; SetupError when a backend cannot be used.

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

    def hurry(self) -> None:
        """Wait no longer, if it is being closed."""
        for backend in self.all:
            backend.hurry()

    def _but_those_of(self, others: "AuditBackends | None") -> list[Backend]:
        kept = others.all if others is not None else []
        return [one for one in self.all if one not in kept]
