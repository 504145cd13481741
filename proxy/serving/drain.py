"""Shutdown: clients are led elsewhere, so that none of them sees an error.

The order and its times are in `drain_schedule`; here they meet the connections.
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

_LOOK_SECONDS = 0.05
# The interpreter takes its time to end, too.
_EXIT_SECONDS = 0.5
# Clients take a watch that ends within its first second without an event for a faulty one, and
# read everything anew instead of resuming.
_YOUNGEST_SECONDS = 1.1


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen of a stream: when first, and how much it had sent the last time."""

    first_seen: float
    sent: int


class Drain:
    """Lets the clients of a listener go, in order."""

    def __init__(
        self, listener: Listener, times: DrainTimes, *, clock: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._times = times
        self._clock = clock
        self._looks: dict[ServerExchange, _Look] = {}
        self._is_hurried = False
        self._ends = clock()
        self.has_started = False

    async def run(self) -> None:
        """Return when nobody is waited for any more; who is left then ends with the listener."""
        self.has_started = True
        self._ends = self._clock() + self._times.grace_seconds
        schedule = DrainSchedule(self._times, self._clock())
        self._announce()
        await self._wait_until(lambda: self._is_closing_time(schedule))
        await self._listener.stop_accepting()
        self._turn_away()
        await self._wait_until(lambda: self._is_over(schedule))
        self._give_up()

    def set_times(self, times: DrainTimes) -> None:
        """Take this long for a shutdown that has not begun."""
        self._times = times

    def skip_grace_period(self) -> None:
        """Wait for nobody from now on."""
        self._is_hurried = True

    def remaining_seconds(self) -> float:
        """Return what is left of the grace period for whatever comes after the clients."""
        return 0.0 if self._is_hurried else max(0.0, self._ends - self._clock() - _EXIT_SECONDS)

    async def _wait_until(self, is_done: Callable[[], bool]) -> None:
        while not self._is_hurried and not is_done():  # noqa: ASYNC110 - the clock tells, nobody else
            await asyncio.sleep(_LOOK_SECONDS)

    def _announce(self) -> None:
        log.info("draining", extra=fields(connections=len(self._listener.connections)))
        self._listener.set_drain_handler(CloseAfterResponse(self._listener.handler))
        for exchange in self._exchanges():
            # Once its head is sent, an answer cannot say any more that it is the last.
            exchange.closes = exchange.closes or not exchange.has_started

    def _turn_away(self) -> None:
        """Serve only those who have not asked yet: they chose us before they could know better."""
        log.info(
            "stopped accepting connections",
            extra=fields(connections=len(self._listener.connections)),
        )
        too_late = RejectWhileDraining(self._listener.handler)
        for connection in self._listener.connections:
            if connection.has_received_request:
                connection.handler = too_late

    def _is_closing_time(self, schedule: DrainSchedule) -> bool:
        now = self._clock()
        if not schedule.is_announced(now):
            return True
        self._look_at(self._streams(), now)
        return False

    def _is_over(self, schedule: DrainSchedule) -> bool:
        now = self._clock()
        streams = self._streams()
        ended, due = 0, schedule.streams_due(now, len(streams))
        is_pressing = schedule.is_window_over(now)
        for exchange in streams:
            if ended < due and self._is_between_messages(exchange, now, is_pressing=is_pressing):
                ended += exchange.finish_early()
        schedule.streams_ended(ended)
        self._look_at([exchange for exchange in streams if exchange.is_open], now)
        return schedule.is_over(now, self._census())

    def _look_at(self, streams: list[ServerExchange], now: float) -> None:
        unknown = _Look(now, 0)
        self._looks = {
            one: _Look(self._looks.get(one, unknown).first_seen, one.body_bytes) for one in streams
        }

    def _is_between_messages(
        self, exchange: ServerExchange, now: float, *, is_pressing: bool
    ) -> bool:
        """Tell whether, as far as anybody who does not read them can know, no event is half-sent.

        The API server writes an event in one go, in chunks that follow each other at once: where
        nothing came since the last look and the last byte ends a line (if they come in lines), an
        event has ended. A stream that is never quiet gets along with either when its time is up.
        """
        look = self._looks.get(exchange)
        if look is None or now - look.first_seen < _YOUNGEST_SECONDS:
            return False
        is_quiet = look.sent == exchange.body_bytes
        if is_pressing:
            return is_quiet or exchange.is_between_lines
        return is_quiet and exchange.is_between_lines

    def _census(self) -> ConnectionCounts:
        connections = self._listener.connections
        kinds = Counter(exchange.kind for exchange in self._exchanges())
        return ConnectionCounts(
            unused=sum(not connection.has_received_request for connection in connections),
            ordinary=kinds[ExchangeKind.ORDINARY] + sum(one.is_sending for one in connections),
            streams=kinds[ExchangeKind.STREAM],
            tunnels=kinds[ExchangeKind.TUNNEL],
        )

    def _give_up(self) -> None:
        """Tell those whose answer has not begun, and cut the others so that they see it."""
        left = [one for one in self._exchanges() if one.kind is not ExchangeKind.TUNNEL]
        log.info("drained", extra=fields(given_up=len(left)))
        for exchange in left:
            # No Retry-After: the API server may have acted on the request.
            exchange.fail(BadGateway("the proxy is shutting down before the answer came"))

    def _streams(self) -> list[ServerExchange]:
        return [exchange for exchange in self._exchanges() if exchange.kind is ExchangeKind.STREAM]

    def _exchanges(self) -> list[ServerExchange]:
        return [
            connection.exchange
            for connection in self._listener.connections
            if connection.exchange is not None
        ]
