"""Audit backend that posts batches of events to a webhook, in order, as `audit.k8s.io/v1` lists.

One call is in flight at a time. A failed call is retried until the webhook accepts it. Events that
arrive meanwhile wait in memory, up to the buffer's limits.
"""

import asyncio
import contextlib
import io
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp

from proxy.audit.backends.buffer import BufferLimits, EventBuffer
from proxy.audit.backends.webhook_config import (
    WebhookConfigError,
    WebhookConfigLoader,
    WebhookEndpoint,
)
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.kubeclient.bounded_session import ResponseTooLarge, bounded_session
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.audit import AuditMetrics

log = logging.getLogger(__name__)

_MAX_BATCH_BYTES = 2 << 20
_CHECK_SECONDS = 0.1
_CALL_SECONDS = 30.0
# Only the status of the response is used. Webhooks send a line or a page with it.
_MAX_RESPONSE_BYTES = 64 * 1024
_RELOAD_SECONDS = 60.0
_MAX_BACKOFF_SECONDS = 60.0
_BACKOFF_FACTOR = 1.5
_ALL_CALLS = "calls"  # all share one bucket
_JITTER = 0.2
_CLOSING_RETRY_SECONDS = 0.1
# A webhook that rejects the request itself as invalid is unlikely ever to accept it. After that
# many attempts its events are discarded. Otherwise they would block all later ones forever.
_BAD_REQUESTS = frozenset((400, 413, 422))
_MAX_BAD_REQUESTS = 5

_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_TAIL = b"]}\n"
# An item of a list has no kind and apiVersion of its own.
_TYPE_META = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1",'


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How events are batched, and the rate of calls."""

    max_events: int
    max_wait_seconds: float
    calls_per_second: float
    burst: int
    initial_backoff_seconds: float


class WebhookBackend:
    """Buffers events, and sends them to a webhook."""

    def __init__(
        self,
        target: WebhookConfigLoader,
        limits: BufferLimits,
        batching: BatchConfig,
        metrics: AuditMetrics,
    ) -> None:
        self._loader = target
        self._batching = batching
        self._metrics = metrics
        self._wake_event = asyncio.Event()
        self._closing = asyncio.Event()
        self._tasks = TaskSet(_report)
        self._clock = asyncio.get_running_loop().time
        rate_limit = RateLimit(batching.calls_per_second, batching.burst)
        self._throttle = KeyedTokenBucket(rate_limit, self._clock)
        self._endpoint_loaded_at = self._clock()
        self._sending: asyncio.Task[None] | None = None
        self.buffer = EventBuffer("webhook", limits, metrics, self._wake_event.set)

    async def start(self) -> None:
        """Load the configuration and start sending; raise WebhookConfigError if it is invalid."""
        self._endpoint: WebhookEndpoint = await self._loader.read()
        self._session = bounded_session(
            response_bytes=_MAX_RESPONSE_BYTES,
            connections=1,
            timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS),
        )
        self._sending = self._tasks.start(self._send_all())

    async def close(self, seconds: float) -> None:
        """Send the buffered events; events not accepted within `seconds` are lost."""
        self._closing.set()
        self._wake_event.set()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=seconds)
            await self._tasks.stop()
            await self._session.close()
        self.buffer.discard_all("shutdown")

    def skip_flush(self) -> None:
        """End the wait of `close`."""
        if self._sending is not None and self._closing.is_set():
            self._sending.cancel()

    async def _send_all(self) -> None:
        while batch := await self._next_batch():
            if not self._closing.is_set():
                await self._pause(self._throttle.reserve(_ALL_CALLS))
            await self._deliver(batch)

    async def _next_batch(self) -> list[bytes]:
        """Return the next events; empty when the backend is closing and none are left."""
        while self.buffer.mark_idle() and not self._closing.is_set():
            await self._wake_event.wait()
            self._wake_event.clear()
        deadline = self._clock() + self._batching.max_wait_seconds
        max_events = self._batching.max_events
        while self.buffer.queued < max_events and not self._closing.is_set():
            left = deadline - self._clock()
            if left <= 0:
                break
            await self._pause(min(left, _CHECK_SECONDS))
        return list(self.buffer.take(events=max_events, size=_MAX_BATCH_BYTES))

    async def _deliver(self, batch: Sequence[bytes]) -> None:
        """Repeat the call until the webhook accepts it, or has rejected it for good."""
        delay = self._batching.initial_backoff_seconds
        bad_requests = 0
        size = sum(map(len, batch))
        while (status := await self._call(batch)) // 100 != 2:  # noqa: PLR2004 - a success
            if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(batch[:middle])
                await self._deliver(batch[middle:])
                return
            bad_requests += status in _BAD_REQUESTS
            if bad_requests >= _MAX_BAD_REQUESTS:
                self.buffer.discard("refused", len(batch), size)
                return
            await self._pause(delay * random.uniform(1, 1 + _JITTER))  # noqa: S311 - not a secret
            delay = min(delay * _BACKOFF_FACTOR, _MAX_BACKOFF_SECONDS)
            await self._reload_endpoint()
        self.buffer.mark_stored(len(batch), size)

    async def _call(self, batch: Sequence[bytes]) -> int:
        """Make one call; return the response status, or 0 if there was no response."""
        if self._clock() - self._endpoint_loaded_at > _RELOAD_SECONDS:
            await self._reload_endpoint()
        target = self._endpoint
        headers = {"Content-Type": "application/json", "User-Agent": "understudy"}
        if target.authorization is not None:
            headers["Authorization"] = target.authorization
        try:
            async with self._session.post(
                target.url,
                data=io.BytesIO(_event_list(batch)),  # sent in chunks, one per loop iteration
                headers=headers,
                ssl=target.context or True,
                server_hostname=target.server_name,
                allow_redirects=False,
            ) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.buffer.mark_failed("send", _reason(error))
            return 0
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self.buffer.mark_failed("send", f"the webhook returned status {status}")
        return status

    async def _reload_endpoint(self) -> None:
        """Reload the webhook configuration; keep the current one if the new one is invalid."""
        self._endpoint_loaded_at = self._clock()
        try:
            self._endpoint = await self._loader.read()
        except WebhookConfigError as error:
            self._metrics.backend_failed("webhook", "credential")
            log.warning("audit webhook configuration not reloaded", extra=fields(reason=str(error)))

    async def _pause(self, seconds: float) -> None:
        """Sleep; while closing, no longer than the closing retry interval."""
        if self._closing.is_set():
            await asyncio.sleep(min(seconds, _CLOSING_RETRY_SECONDS))
        elif seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)


def _reason(error: Exception) -> str:
    """Return why a call failed, without any text of the response.

    Parsing errors quote the response, and a webhook can put the token of the call into it.
    """
    is_own = isinstance(error, aiohttp.ClientConnectorError | ResponseTooLarge)
    return str(error) if is_own else type(error).__name__


def _report(error: BaseException) -> None:
    log.error("audit webhook stopped", exc_info=error)


def _event_list(lines: Sequence[bytes]) -> bytes:
    return _HEAD + b",".join([_item(line) for line in lines]) + _TAIL


def _item(line: bytes) -> bytes:
    item = line.rstrip(b"\n")
    return b"{" + item[len(_TYPE_META) :] if item.startswith(_TYPE_META) else item
