"""The audit trail as calls of a receiver: `EventList`s of `audit.k8s.io/v1`, in order, in batches.

One call is under way at a time. One that fails is made again until the receiver takes it; what
comes meanwhile waits in memory, up to the buffer's limits.
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

from proxy.audit.backends.buffer import AuditCounter, BufferLimits, EventBuffer
from proxy.audit.backends.webhook_config import (
    WebhookConfigError,
    WebhookConfigLoader,
    WebhookEndpoint,
)
from proxy.concurrency.rate_limit import CallPacer
from proxy.concurrency.task_set import TaskSet
from proxy.kubeclient.bounded_session import ResponseTooLarge, bounded_session
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_MOST_BYTES = 2 << 20
_LOOK_SECONDS = 0.1
_CALL_SECONDS = 30.0
# Only the status of an answer counts. Receivers send a line or a page with it.
_MOST_ANSWER_BYTES = 64 * 1024
_TARGET_SECONDS = 60.0
_LONGEST_BACKOFF_SECONDS = 60.0
_BACKOFF_FACTOR = 1.5
_JITTER = 0.2
_LAST_RETRIES_SECONDS = 0.1
# A receiver that calls the request itself bad will hardly ever take it. After that many times its
# events are given up, or else they would hold up all others for ever.
_BAD_REQUESTS = frozenset((400, 413, 422))
_MOST_BAD_REQUESTS = 5

_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_TAIL = b"]}\n"
# In a list an event does not say again what it is.
_OWN_KIND = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1",'


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How events are put together, and how often calls are made."""

    max_events: int
    longest_wait_seconds: float
    calls_per_second: float
    burst: int
    initial_backoff_seconds: float


class WebhookBackend:
    """Takes events, and sends them to a receiver."""

    def __init__(
        self,
        target: WebhookConfigLoader,
        limits: BufferLimits,
        batching: BatchConfig,
        counter: AuditCounter,
    ) -> None:
        self._reader = target
        self._batching = batching
        self._counter = counter
        self._woken = asyncio.Event()
        self._closing = asyncio.Event()
        self._tasks = TaskSet(_report)
        self._clock = asyncio.get_running_loop().time
        self._throttle = CallPacer(batching.calls_per_second, batching.burst, self._clock)
        self._target_read_at = self._clock()
        self._sending: asyncio.Task[None] | None = None
        self.backlog = EventBuffer("webhook", limits, counter, self._woken.set)

    async def start(self) -> None:
        """Load the configuration and start sending; WebhookConfigError if it is invalid."""
        self._target: WebhookEndpoint = await self._reader.read()
        self._session = bounded_session(
            answer_bytes=_MOST_ANSWER_BYTES,
            connections=1,
            timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS),
        )
        self._sending = self._tasks.start(self._send_all())

    async def close(self, seconds: float) -> None:
        """Send what is waiting; what is not accepted by then is lost."""
        self._closing.set()
        self._woken.set()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=seconds)
            await self._tasks.stop()
            await self._session.close()
        self.backlog.discard_all("shutdown")

    def skip_flush(self) -> None:
        """Wait no longer while closing."""
        if self._sending is not None and self._closing.is_set():
            self._sending.cancel()

    async def _send_all(self) -> None:
        while batch := await self._next_batch():
            if not self._closing.is_set():
                await self._pause(self._throttle.delay())
            await self._deliver(batch)

    async def _next_batch(self) -> list[bytes]:
        """Return the next events, or none when that was all."""
        while self.backlog.becomes_idle() and not self._closing.is_set():
            await self._woken.wait()
            self._woken.clear()
        deadline = self._clock() + self._batching.longest_wait_seconds
        most = self._batching.max_events
        while self.backlog.waiting < most and not self._closing.is_set():
            left = deadline - self._clock()
            if left <= 0:
                break
            await self._pause(min(left, _LOOK_SECONDS))
        return list(self.backlog.take(events=most, size=_MOST_BYTES))

    async def _deliver(self, batch: Sequence[bytes]) -> None:
        """Make the call until the receiver has taken it, or has refused it for good."""
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
            if bad_requests >= _MOST_BAD_REQUESTS:
                self.backlog.discard("refused", len(batch), size)
                return
            await self._pause(delay * random.uniform(1, 1 + _JITTER))  # noqa: S311 - not a secret
            delay = min(delay * _BACKOFF_FACTOR, _LONGEST_BACKOFF_SECONDS)
            await self._read_target()
        self.backlog.stored(len(batch), size)

    async def _call(self, batch: Sequence[bytes]) -> int:
        """Make one call, and return the answer's status, or 0 for none."""
        if self._clock() - self._target_read_at > _TARGET_SECONDS:
            await self._read_target()
        target = self._target
        headers = {"Content-Type": "application/json", "User-Agent": "understudy"}
        if target.authorization is not None:
            headers["Authorization"] = target.authorization
        try:
            async with self._session.post(
                target.url,
                data=io.BytesIO(_event_list(batch)),  # sent in pieces, each in a turn of the loop
                headers=headers,
                ssl=target.context or True,
                server_hostname=target.server_name,
                allow_redirects=False,
            ) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.backlog.failed("send", _reason(error))
            return 0
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self.backlog.failed("send", f"the receiver answered {status}")
        return status

    async def _read_target(self) -> None:
        """Take what is written about the receiver now; what cannot be used changes nothing."""
        self._target_read_at = self._clock()
        try:
            self._target = await self._reader.read()
        except WebhookConfigError as error:
            self._counter.backend_failed("webhook", "credential")
            log.warning("audit webhook configuration not reloaded", extra=fields(reason=str(error)))

    async def _pause(self, seconds: float) -> None:
        """Wait; no longer than a moment when it is the end."""
        if self._closing.is_set():
            await asyncio.sleep(min(seconds, _LAST_RETRIES_SECONDS))
        elif seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)


def _reason(error: Exception) -> str:
    """Tell why a call failed in words of this side alone.

    Errors of parsing quote the answer, and a receiver can put the token of the call into it.
    """
    is_own = isinstance(error, aiohttp.ClientConnectorError | ResponseTooLarge)
    return str(error) if is_own else type(error).__name__


def _report(error: BaseException) -> None:
    log.error("audit webhook stopped", exc_info=error)


def _event_list(lines: Sequence[bytes]) -> bytes:
    return _HEAD + b",".join([_item(line) for line in lines]) + _TAIL


def _item(line: bytes) -> bytes:
    item = line.rstrip(b"\n")
    return b"{" + item[len(_OWN_KIND) :] if item.startswith(_OWN_KIND) else item
