"""Where audit events go: a file, a webhook, or both, each at its own pace."""

import asyncio
from collections.abc import Callable, Sequence

from proxy.audit.backlog import Backlog, Mode
from proxy.audit.log_backend import LogBackend
from proxy.audit.room import AuditRoom
from proxy.audit.webhook import WebhookBackend


class AuditBackends:
    """Every backend there is; none of them holds up another."""

    def __init__(
        self,
        log: LogBackend | None,
        webhook: WebhookBackend | None,
        *,
        when_refused: Callable[[], None],
    ) -> None:
        self._log = log
        self._webhook = webhook
        self.backlogs: Sequence[Backlog] = [
            one.backlog for one in (log, webhook) if one is not None
        ]
        self._when_refused = when_refused
        self._is_closed = False

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

    async def start(self) -> None:
        """Let events go out; SetupError when a backend cannot be used."""
        if self._log is not None:
            await asyncio.to_thread(self._log.start)
        if self._webhook is not None:
            await self._webhook.start()

    async def close(self, seconds: float) -> None:
        """Store what is waiting, as far as that many seconds allow; call it when all is over."""
        if self._is_closed:
            return
        self._is_closed = True
        async with asyncio.TaskGroup() as group:
            if self._log is not None:
                group.create_task(asyncio.to_thread(self._log.close, seconds))
            if self._webhook is not None:
                group.create_task(self._webhook.close(seconds))

    def hurry(self) -> None:
        """Wait no longer, if it is being closed."""
        for backend in (self._log, self._webhook):
            if backend is not None:
                backend.hurry()
