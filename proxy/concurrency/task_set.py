"""Work that outlives the function that started it, owned in one place and ended together.

A TaskGroup would cancel every request when one task fails. Here a failure is reported and the
others go on; `stop` ends them all.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Failure = Callable[[BaseException], None]


class TaskSet:
    """Every task of one owner."""

    def __init__(self, on_failure: Failure) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task; its failure is reported even if nobody awaits it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def start_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that nobody awaits."""
        self.start(coroutine)  # type: ignore[unused-awaitable]  # held by us until it ends

    def start_eager(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Run a coroutine up to its first real wait, and the rest as a task, if there is a rest.

        A request whose answers are all at hand finishes here and costs no task. Until its first
        wait the coroutine runs outside any task, so what needs one (a timeout) must start its own,
        and what it raises is raised here.
        """
        try:
            awaited = coroutine.send(None)
        except StopIteration:
            return None
        return self.start(_Rest(coroutine, awaited))

    async def stop(self) -> None:
        """Cancel what still runs and wait for its end, and for the end of what that starts."""
        while self._running:
            running = list(self._running)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            # Done callbacks take ended tasks out of the set, in the loop's next turn.
            await asyncio.sleep(0)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)


class _Rest(Coroutine[Any, Any, T]):
    """The rest of a coroutine that already waits for something.

    A class and not a generator, because a task that is cancelled before its first step must still
    cancel the coroutine at its wait: a generator that never ran would only be thrown away.
    """

    __slots__ = ("_awaited", "_coroutine", "_is_resumed")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: object) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._is_resumed = False

    def send(self, value: Any) -> Any:
        """First give the task what to wait for; afterwards go on."""
        if not self._is_resumed:
            self._is_resumed = True
            return self._awaited
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Pass on what the wait ended with, a cancellation too."""
        self._is_resumed = True
        try:
            return self._coroutine.throw(*error)
        finally:
            # The error's traceback names this frame: a cycle that would keep all that the request
            # holds until the garbage collector comes.
            del error

    def close(self) -> None:
        """Give up."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("only a task goes on with a coroutine")
