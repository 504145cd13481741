"""The two event loops we run on, and how to wait on them without guessing how long."""

import asyncio
from collections.abc import Callable

import uvloop

Loops = dict[str, Callable[[], asyncio.AbstractEventLoop]]
PRODUCTION_LOOP: Loops = {"uvloop": uvloop.new_event_loop}
BOTH_LOOPS: Loops = {"asyncio": asyncio.new_event_loop, **PRODUCTION_LOOP}


async def eventually(condition: Callable[[], object], *, seconds: float = 5.0) -> None:
    """Return as soon as the condition holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for need not know of any event
            await asyncio.sleep(0.001)
