"""Components that a reload has replaced, kept until the last request that uses them has ended."""

import asyncio
from datetime import timedelta

from proxy.audit.backends.union import AuditBackends
from proxy.concurrency.task_set import Failure, TaskSet
from proxy.settings.model import Settings
from proxy.telemetry.tracing import Tracing
from proxy.upstream.session import UpstreamSession

# A request that is being authorized continues with the components it began with. Settings bound
# most of its waits. This covers the others: queueing, and several reviews in sequence.
_AUTHORIZATION_SECONDS = timedelta(minutes=1).total_seconds()
_FLUSH_SECONDS = 30.0


class RetiringComponents:
    """Components that accept no new requests, and are closed when they are unused."""

    def __init__(self, tasks: TaskSet, *, on_failure: Failure) -> None:
        self._tasks = tasks
        self._upstreams: list[UpstreamSession] = []
        self._audits: list[AuditBackends] = []
        # A separate task set: at shutdown these tasks are awaited, not cancelled.
        self._closing_tasks = TaskSet(on_failure)
        self._closing: set[asyncio.Task[None]] = set()

    def retire_audit(self, old: AuditBackends, *, current: AuditBackends) -> None:
        """Flush and close backends, except those that are also in `beside`."""
        closing = self._closing_tasks.start(old.close(_FLUSH_SECONDS, shared_with=current))
        self._audits.append(old)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        closing.add_done_callback(lambda _: self._audits.remove(old))

    def retire_tracing(self, old: Tracing) -> None:
        """Send the remaining spans, and stop."""
        closing = self._closing_tasks.start(asyncio.to_thread(old.stop))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def retire_upstream(self, old: UpstreamSession, settings: Settings) -> None:
        """Let exchanges end; requests being authorized may use the session for a bounded time."""
        old.retire()
        self._upstreams.append(old)
        seconds = (
            _AUTHORIZATION_SECONDS
            + settings.authentication.token_review.timeout_seconds
            + settings.impersonation.reviews.timeout_seconds
            + settings.upstream.connect_timeout_seconds
        )
        self._tasks.start_background(self._close_later(old, seconds))

    def close_unreachable(self) -> None:
        """Abort exchanges with an unreachable API server; called periodically."""
        for upstream in self._upstreams:
            upstream.components.pool.close_unreachable()
        self._upstreams = [
            upstream
            for upstream in self._upstreams
            if not (upstream.is_closed and upstream.components.pool.is_empty)
        ]

    def skip_grace_period(self) -> None:
        """Stop waiting for events that are not stored yet."""
        for audit in self._audits:
            audit.skip_flush()

    async def close(self, seconds: float) -> None:
        """Close everything; wait up to `seconds` for queued events."""
        for upstream in self._upstreams:
            await upstream.close()
        if self._closing:
            await asyncio.wait(self._closing, timeout=seconds)
        await self._closing_tasks.stop()

    async def _close_later(self, upstream: UpstreamSession, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await upstream.close_idle()
