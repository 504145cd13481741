"""Shutdown: clients are led elsewhere, so that none of them sees an error.

The order and its times are in `drain_schedule`; here they meet the connections.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from proxy.core.errors import BadGateway
from proxy.serving.drain_schedule import Census, DrainSchedule, DrainTimes
from proxy.serving.exchange import Exchange, Kind
from proxy.serving.last_requests import LastRequest, TooLate
from proxy.serving.listener import Listener
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05


class Drain:
    """Lets the clients of a listener go, in order."""

    def __init__(
        self, listener: Listener, times: DrainTimes, *, clock: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._times = times
        self._clock = clock
        # What each stream had sent at the last look: one that sent nothing since is quiet.
        self._sent: dict[Exchange, int] = {}
        self._is_hurried = False
        self.has_begun = False

    async def run(self) -> None:
        """Return when nobody is waited for any more; who is left then ends with the listener."""
        self.has_begun = True
        schedule = DrainSchedule(self._times, self._clock())
        self._announce()
        await self._look_on(lambda: not schedule.is_announced(self._clock()))
        await self._listener.stop_accepting()
        self._turn_away()
        await self._look_on(lambda: self._is_over(schedule))
        self._give_up()

    def hurry(self) -> None:
        """Wait for nobody from now on."""
        self._is_hurried = True

    async def _look_on(self, is_done: Callable[[], bool]) -> None:
        while not self._is_hurried and not is_done():  # noqa: ASYNC110 - the clock tells, nobody else
            await asyncio.sleep(_LOOK_SECONDS)

    def _announce(self) -> None:
        log.info("draining", extra=fields(connections=len(self._listener.connections)))
        self._listener.hand_over(LastRequest(self._listener.handler))
        for exchange in self._exchanges():
            exchange.closes = True

    def _turn_away(self) -> None:
        """Serve only those who have not asked yet: they chose us before they could know better."""
        log.info("closed to new clients", extra=fields(connections=len(self._listener.connections)))
        too_late = TooLate(self._listener.handler)
        for connection in self._listener.connections:
            if connection.has_asked:
                connection.handler = too_late

    def _is_over(self, schedule: DrainSchedule) -> bool:
        now = self._clock()
        streams = [one for one in self._exchanges() if one.kind is Kind.STREAM]
        ended = self._end_streams(streams, schedule.streams_due(now, len(streams)), schedule)
        schedule.streams_ended(ended)
        self._sent = {one: one.body_bytes for one in streams if one.is_open}
        return schedule.is_over(now, self._census())

    def _end_streams(self, streams: list[Exchange], due: int, schedule: DrainSchedule) -> int:
        ended = 0
        is_pressing = schedule.is_window_over(self._clock())
        for exchange in streams:
            if ended == due:
                break
            if self._is_between_messages(exchange, is_pressing=is_pressing):
                ended += exchange.finish_early()
        return ended

    def _is_between_messages(self, exchange: Exchange, *, is_pressing: bool) -> bool:
        """Tell whether, as far as anybody who does not read them can know, no event is half-sent.

        The API server writes an event in one go, in chunks that follow each other at once: where
        nothing came for a whole look and the last byte ends a line (if they come in lines), an
        event has ended. A stream that is never quiet gets along with either when its time is up.
        """
        is_quiet = self._sent.get(exchange) == exchange.body_bytes
        if is_pressing:
            return is_quiet or exchange.is_between_lines
        return is_quiet and exchange.is_between_lines

    def _census(self) -> Census:
        connections = self._listener.connections
        kinds = Counter(exchange.kind for exchange in self._exchanges())
        return Census(
            newcomers=sum(not connection.has_asked for connection in connections),
            ordinary=kinds[Kind.ORDINARY],
            streams=kinds[Kind.STREAM],
            tunnels=kinds[Kind.TUNNEL],
        )

    def _give_up(self) -> None:
        """Tell those whose answer has not begun, and cut the others so that they see it."""
        left = [one for one in self._exchanges() if one.kind is not Kind.TUNNEL]
        log.info("drained", extra=fields(given_up=len(left)))
        for exchange in left:
            # No Retry-After: the API server may have acted on the request.
            exchange.give_up(BadGateway("the proxy is shutting down before the answer came"))

    def _exchanges(self) -> list[Exchange]:
        return [
            connection.exchange
            for connection in self._listener.connections
            if connection.exchange is not None
        ]
