"""How long the event loop was not free for others."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_EVERY_SECONDS = 0.005


class LoopLag:
    """The longest time by which this process's own work delayed a short sleep."""

    worst_seconds = 0.0


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopLag]:
    """Measure for the time of the context.

    A delay counts only as far as this process used the CPU in it: on a shared machine a process
    that is not scheduled sees delays above a second. So a call that blocks without using the CPU is
    not seen here. blockbuster reports those that it knows, if code of `proxy` makes them.
    """
    lag = LoopLag()
    clock = asyncio.get_running_loop().time

    async def watch() -> None:
        while True:
            began, used = clock(), time.process_time()
            await asyncio.sleep(_EVERY_SECONDS)
            late = clock() - began - _EVERY_SECONDS
            lag.worst_seconds = max(lag.worst_seconds, min(late, time.process_time() - used))

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield lag
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
