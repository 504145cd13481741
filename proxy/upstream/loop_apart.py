"""An event loop apart from ours, for coroutines that block theirs and for the programs they run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_FAREWELL_SECONDS = 5.0


def run_apart(start: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Run what `start` returns in a loop of its own; for use in a thread.

    After that many seconds it is given up with TimeoutError, and programs that it runs are killed.
    """
    with asyncio.Runner(loop_factory=_LoopApart) as runner:
        runner.run(asyncio.wait_for(start(), seconds))


class _LoopApart(asyncio.SelectorEventLoop):
    """An event loop whose child processes end with it."""

    def __init__(self) -> None:
        super().__init__()
        self._children: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *program: Any, **options: Any) -> Any:
        """Run a program, and remember it."""
        transport, protocol = await super().subprocess_exec(*program, **options)
        self._children.append(transport)
        return transport, protocol

    def close(self) -> None:
        """Kill what still runs, and see it end."""
        if not self.is_closed():
            self.run_until_complete(self._end_children())
        super().close()

    async def _end_children(self) -> None:
        for child in self._children:
            child.close()
        async with asyncio.timeout(_FAREWELL_SECONDS):
            while any(child.get_returncode() is None for child in self._children):  # noqa: ASYNC110 - a transport has no event for it
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # their pipes close in the loop's next turn
