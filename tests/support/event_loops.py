"""The two event loops we run on, and how to wait on them without guessing how long."""

import asyncio
from collections.abc import Callable

import uvloop

BOTH_LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


async def eventually(condition: Callable[[], object], *, seconds: float = 5.0) -> None:
    """Return as soon as the condition holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for need not know of any event
            await asyncio.sleep(0.001)
