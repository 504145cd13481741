"""The two event loops we run on, and how to wait on them without guessing how long."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import uvloop

T = TypeVar("T")
Parameters = ParamSpec("Parameters")
Arguments = TypeVarTuple("Arguments")
Loops = dict[str, Callable[[], asyncio.AbstractEventLoop]]
PRODUCTION_LOOP: Loops = {"uvloop": uvloop.new_event_loop}
BOTH_LOOPS: Loops = {"asyncio": asyncio.new_event_loop, **PRODUCTION_LOOP}


async def eventually(condition: Callable[[], object], *, seconds: float = 5.0) -> None:
    """Return as soon as the condition holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for need not know of any event
            await asyncio.sleep(0.001)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop without waiting: its clock jumps to the next timer.

    While a thread of its executor works, the clock stands still.
    """

    def __init__(self) -> None:
        self._selecting = _JumpingSelector()
        super().__init__(self._selecting)

    def time(self) -> float:
        return self._selecting.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        working = super().run_in_executor(executor, func, *args)
        self._selecting.threads += 1
        working.add_done_callback(self._on_thread_ended)
        return working

    def _on_thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._selecting.threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.threads:
            return super().select(None)
        self.now += timeout
        return []


def in_virtual_time(
    test: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Run a test in an event loop whose waits take no time."""

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
