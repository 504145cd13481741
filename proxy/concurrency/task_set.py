"""A set of tasks that outlive the functions that started them, with one owner.

A TaskGroup would cancel every request when one task fails. Here a failure is reported and the
other tasks continue; `stop` cancels them all.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Failure = Callable[[BaseException], None]


class TaskSet:
    """The tasks of one owner."""

    def __init__(self, on_failure: Failure) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task; its failure is reported even if it is not awaited."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def start_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that is not awaited."""
        self.start(coroutine)  # type: ignore[unused-awaitable]  # `_running` holds it

    def start_eager(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Run a coroutine up to its first suspension, and the rest as a task, if there is a rest.

        A request that never has to wait finishes here and costs no task. Until its first
        suspension the coroutine runs outside any task. So code that needs a task (a timeout) must
        start its own, and exceptions are raised here.
        """
        try:
            awaited = coroutine.send(None)
        except StopIteration:
            return None
        return self.start(_Continuation(coroutine, awaited))

    async def stop(self) -> None:
        """Cancel all tasks and wait for them, and for the tasks that they start meanwhile."""
        while self._running:
            running = list(self._running)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            # Done callbacks remove ended tasks from the set in the next loop iteration.
            await asyncio.sleep(0)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)


class _Continuation(Coroutine[Any, Any, T]):
    """The rest of a coroutine that is already suspended.

    A class and not a generator: a task that is cancelled before its first step must still cancel
    the suspended coroutine. A generator that never ran would only be discarded.
    """

    __slots__ = ("_awaited", "_coroutine", "_is_resumed")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: object) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._is_resumed = False

    def send(self, value: Any) -> Any:
        """Return the pending awaitable first; afterwards resume the coroutine."""
        if not self._is_resumed:
            self._is_resumed = True
            return self._awaited
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception, or a cancellation, in the coroutine."""
        self._is_resumed = True
        try:
            return self._coroutine.throw(*error)
        finally:
            # The error's traceback refers to this frame. The cycle would retain everything that the
            # request holds until a garbage collection.
            del error

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("only a task can continue this coroutine")
