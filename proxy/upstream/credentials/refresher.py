"""Refresh of the proxy's credential: periodically, and when an API server rejects it."""

import logging
from collections.abc import Callable
from functools import partial

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.credentials.credentials import UpstreamCredentials

log = logging.getLogger(__name__)

# The minimum interval between two renewals. Each may run a plugin, and with a rejected credential
# every request reports a rejection.
MIN_RENEWAL_INTERVAL_SECONDS = 5.0


class CredentialRefresher:
    """Refreshes the credential of one role until cancelled."""

    def __init__(
        self,
        role: str,
        credential: UpstreamCredentials,
        *,
        every_seconds: float,
        counter: UpstreamMetrics,
        tasks: TaskSet,
    ) -> None:
        self._role = role
        self._credential = credential
        self._counter = counter
        self._every_seconds = every_seconds
        # Called after each new credential.
        self.when_changed: Callable[[], None] = lambda: None
        self._pause_seconds = 0.0
        # Rejections reported during a renewal or shortly after may concern the old credential.
        self._loop = RefreshLoop(
            partial(self._refresh, renew=False),
            delay=lambda: Delay(self._every_seconds, self._pause_seconds),
            tasks=tasks,
            when_triggered=self._renew,
            keeps_late_triggers=False,
        )
        self.publish_expiry()

    def publish_expiry(self) -> None:
        """Record the expiry of the credential in use."""
        self._counter.credential_expires(self._role, self._credential.expires_at)

    def report_rejected(self) -> None:
        """Renew the credential soon, because an API server rejected it."""
        self._loop.trigger()

    def health_error(self) -> str | None:
        """Return what is wrong with the credential, for the readiness check; else None."""
        return "rejected by the API server" if self._loop.is_triggered else None

    async def run(self) -> None:
        """Refresh until cancelled."""
        await self._loop.run()

    async def _renew(self) -> None:
        log.warning("proxy credential rejected", extra=fields(identity=self._role))
        await self._refresh(renew=True)

    async def _refresh(self, *, renew: bool) -> None:
        self._pause_seconds = MIN_RENEWAL_INTERVAL_SECONDS if renew else 0.0
        try:
            is_new = await self._credential.refresh(renew=renew)
        except OperatorError as error:
            self._counter.credential_read(self._role, used=False)
            log.warning(
                "proxy credential not refreshed",
                extra=fields(identity=self._role, error=str(error)),
            )
            return
        if is_new:
            self._counter.credential_read(self._role, used=True)
            self.publish_expiry()
            log.info("proxy credential refreshed", extra=fields(identity=self._role))
            self.when_changed()
