"""Graceful shutdown: clients move to other instances without an error.

`drain_schedule` defines the phases and their times. This module applies them to connections.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from proxy.core.errors import BadGateway
from proxy.serving.drain_schedule import ConnectionCounts, DrainSchedule, DrainTimes
from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ExchangeKind
from proxy.serving.handlers import CloseAfterResponse, RejectWhileDraining
from proxy.serving.listener import Listener
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_CHECK_INTERVAL_SECONDS = 0.05
# The interpreter needs time to exit as well.
_EXIT_SECONDS = 0.5
# Clients treat a watch that ends within its first second without an event as failed, and list
# again instead of resuming.
_MIN_STREAM_AGE_SECONDS = 1.1


@dataclass(frozen=True, slots=True)
class _Observation:
    """Observation of a stream: when it was first seen, and its bytes sent at the last check."""

    first_seen: float
    sent: int


class Drain:
    """Drains the connections of a listener."""

    def __init__(
        self, listener: Listener, times: DrainTimes, *, clock: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._times = times
        self._clock = clock
        self._observations: dict[ServerExchange, _Observation] = {}
        self._skips_grace_period = False
        self._ends = clock()
        self.has_started = False

    async def run(self) -> None:
        """Drain; return when no exchange is waited for. Remaining ones end with the listener."""
        self.has_started = True
        self._ends = self._clock() + self._times.grace_seconds
        schedule = DrainSchedule(self._times, self._clock())
        self._announce()
        await self._wait_until(lambda: self._is_announcement_over(schedule))
        await self._listener.stop_accepting()
        self._reject_new_requests()
        await self._wait_until(lambda: self._is_over(schedule))
        self._abandon_exchanges()

    def set_times(self, times: DrainTimes) -> None:
        """Set the times for a drain that has not started."""
        self._times = times

    def skip_grace_period(self) -> None:
        """Stop waiting for connections from now on."""
        self._skips_grace_period = True

    def remaining_seconds(self) -> float:
        """Return what is left of the grace period for the steps after the drain."""
        return (
            0.0
            if self._skips_grace_period
            else max(0.0, self._ends - self._clock() - _EXIT_SECONDS)
        )

    async def _wait_until(self, is_done: Callable[[], bool]) -> None:
        while not self._skips_grace_period and not is_done():  # noqa: ASYNC110 - by the clock
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)

    def _announce(self) -> None:
        log.info("drain started", extra=fields(connections=len(self._listener.connections)))
        self._listener.set_drain_handler(CloseAfterResponse(self._listener.handler))
        for exchange in self._exchanges():
            # A response whose head is sent can no longer announce that the connection closes.
            exchange.closes_connection = exchange.closes_connection or not exchange.has_started

    def _reject_new_requests(self) -> None:
        """Reject new requests, except on unused connections.

        Those clients chose this instance before they could see that it shuts down.
        """
        log.info(
            "stopped accepting connections",
            extra=fields(connections=len(self._listener.connections)),
        )
        rejecting = RejectWhileDraining(self._listener.handler)
        for connection in self._listener.connections:
            if connection.has_received_request:
                connection.handler = rejecting

    def _is_announcement_over(self, schedule: DrainSchedule) -> bool:
        now = self._clock()
        if not schedule.is_accepting(now):
            return True
        self._observe(self._streams(), now)
        return False

    def _is_over(self, schedule: DrainSchedule) -> bool:
        now = self._clock()
        streams = self._streams()
        ended, due = 0, schedule.streams_due(now, len(streams))
        is_window_over = schedule.is_window_over(now)
        for exchange in streams:
            if ended < due and self._is_between_messages(
                exchange, now, is_window_over=is_window_over
            ):
                ended += exchange.finish_early()
        schedule.streams_ended(ended)
        self._observe([exchange for exchange in streams if exchange.is_open], now)
        return schedule.is_over(now, self._count_connections())

    def _observe(self, streams: list[ServerExchange], now: float) -> None:
        first = _Observation(now, 0)
        self._observations = {
            stream: _Observation(
                self._observations.get(stream, first).first_seen, stream.body_bytes
            )
            for stream in streams
        }

    def _is_between_messages(
        self, exchange: ServerExchange, now: float, *, is_window_over: bool
    ) -> bool:
        """Return whether no event is partly sent, as far as visible without parsing events.

        The API server writes an event at once, in consecutive chunks. An event has ended if nothing
        was sent since the last check and the last byte ends a line (for newline-delimited streams).
        When the window is over, either condition is enough for a stream that is never idle.
        """
        observation = self._observations.get(exchange)
        if observation is None or now - observation.first_seen < _MIN_STREAM_AGE_SECONDS:
            return False
        is_idle = observation.sent == exchange.body_bytes
        if is_window_over:
            return is_idle or exchange.is_between_lines
        return is_idle and exchange.is_between_lines

    def _count_connections(self) -> ConnectionCounts:
        connections = self._listener.connections
        kinds = Counter(exchange.kind for exchange in self._exchanges())
        return ConnectionCounts(
            unused=sum(not connection.has_received_request for connection in connections),
            ordinary=kinds[ExchangeKind.ORDINARY]
            + sum(connection.is_sending for connection in connections),
            streams=kinds[ExchangeKind.STREAM],
            tunnels=kinds[ExchangeKind.TUNNEL],
        )

    def _abandon_exchanges(self) -> None:
        """Fail exchanges without a response head, and abort the others visibly."""
        remaining = [
            exchange for exchange in self._exchanges() if exchange.kind is not ExchangeKind.TUNNEL
        ]
        log.info("drain finished", extra=fields(given_up=len(remaining)))
        for exchange in remaining:
            # No Retry-After: the API server may have processed the request.
            exchange.fail(BadGateway("the proxy shut down before the response was received"))

    def _streams(self) -> list[ServerExchange]:
        return [exchange for exchange in self._exchanges() if exchange.kind is ExchangeKind.STREAM]

    def _exchanges(self) -> list[ServerExchange]:
        return [
            connection.exchange
            for connection in self._listener.connections
            if connection.exchange is not None
        ]
