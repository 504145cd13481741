"""What a reload has replaced, until the last who needs it has left."""

import asyncio
from datetime import timedelta

from proxy.audit.backends.union import AuditBackends
from proxy.concurrency.task_set import Failure, TaskSet
from proxy.settings.model import Settings
from proxy.telemetry.tracing import Tracing
from proxy.upstream.session import UpstreamSession

# A request that is being decided goes on with what it began with. What it may wait for is bounded
# by settings; this is for what they leave open: turns, several reviews in a row.
_DECIDING_SECONDS = timedelta(minutes=1).total_seconds()
_FLUSH_SECONDS = 30.0


class RetiringComponents:
    """Parts that take nothing new, and end when nobody uses them."""

    def __init__(self, tasks: TaskSet, *, on_failure: Failure) -> None:
        self._tasks = tasks
        self._upstreams: list[UpstreamSession] = []
        self._audits: list[AuditBackends] = []
        # Of our own, for they are not to be cancelled at the end, but waited for.
        self._closing_tasks = TaskSet(on_failure)
        self._closing: set[asyncio.Task[None]] = set()

    def retire_audit(self, old: AuditBackends, *, beside: AuditBackends) -> None:
        """Let backends store what they have, and end; those that are `beside` us go on."""
        closing = self._closing_tasks.start(old.close(_FLUSH_SECONDS, beside=beside))
        self._audits.append(old)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        closing.add_done_callback(lambda _: self._audits.remove(old))

    def retire_tracing(self, old: Tracing) -> None:
        """Send the spans that are left, for a moment."""
        closing = self._closing_tasks.start(asyncio.to_thread(old.stop))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def retire_upstream(self, old: UpstreamSession, settings: Settings) -> None:
        """Let exchanges end; who is being decided may still ask and be forwarded for a while."""
        old.retire()
        self._upstreams.append(old)
        seconds = (
            _DECIDING_SECONDS
            + settings.authentication.token_review.timeout_seconds
            + settings.impersonation.reviews.timeout_seconds
            + settings.upstream.connect_timeout_seconds
        )
        self._tasks.start_background(self._dismiss(old, seconds))

    def close_unreachable(self) -> None:
        """Break off what is under way with an API server that is gone; called now and then."""
        for upstream in self._upstreams:
            upstream.side.pool.close_unreachable()
        self._upstreams = [
            one for one in self._upstreams if not (one.is_dismissed and one.side.pool.is_empty)
        ]

    def skip_grace_period(self) -> None:
        """Wait no longer for what is yet to be stored."""
        for audit in self._audits:
            audit.skip_flush()

    async def end(self, seconds: float) -> None:
        """End everything; events are waited for that long."""
        for upstream in self._upstreams:
            await upstream.close()
        if self._closing:
            await asyncio.wait(self._closing, timeout=seconds)
        await self._closing_tasks.stop()

    async def _dismiss(self, upstream: UpstreamSession, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await upstream.close_idle()
