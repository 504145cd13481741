"""The API server side from its opening to its end: it may be replaced while requests are served."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack

from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.upstream_metrics import UpstreamMetrics
from proxy.upstream.credentials import CredentialsError
from proxy.upstream.own_account import Clocks
from proxy.upstream.side import UpstreamSide, upstream_side
from proxy.wire.tasks import Failure, Tasks

_LEARNING_SECONDS = 10.0


class Tenure:
    """One API server side, and everything that runs for it."""

    def __init__(self, side: UpstreamSide, stack: AsyncExitStack, tasks: Tasks) -> None:
        self.side = side
        self._stack = stack
        self._tasks = tasks
        self._keeping: list[asyncio.Task[None]] = []
        self.is_dismissed = False

    def run(self, when_known: Callable[[], None]) -> None:
        """Learn who we are, and keep our credentials fresh; `when_known` hears of every lesson."""
        self._keeping = [
            self._tasks.start(self.side.knowledge.run(when_known)),
            self._tasks.start(self.side.reachability.run()),
        ]
        self._keeping += [self._tasks.start(one.keeper.run()) for one in self.side.accounts]

    async def learn(self, seconds: float) -> None:
        """Wait until the API server has told who we are, or that it does not."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.side.knowledge.first_lesson.wait(), seconds)

    async def prove(self) -> None:
        """Return when the API server knows us by our credentials; CredentialsError if it does not.

        For a side that is to replace one that works: nobody is to be refused meanwhile.
        """
        await self.learn(_LEARNING_SECONDS)
        if not self.side.knowledge.own_names:
            servers = ", ".join(one.address for one in self.side.accounts[-1].endpoints.all)
            raise CredentialsError(f"upstream: the API server at {servers} does not know us")

    def retire(self) -> None:
        """Serve only whom we serve already: keep nothing, learn nothing, renew nothing."""
        self.side.pool.retire()
        for task in self._keeping:
            task.cancel()

    async def dismiss(self) -> None:
        """End all but the exchanges that are under way: nobody will ask anything any more."""
        self.is_dismissed = True
        await self._tasks.stop()
        await self._stack.aclose()

    async def end(self) -> None:
        """End everything."""
        self.side.pool.close()
        await self.dismiss()


async def begin_tenure(
    settings: UpstreamSettings, *, clocks: Clocks, metrics: UpstreamMetrics, on_failure: Failure
) -> Tenure:
    """Open the API server side; SetupError when our identity cannot be read."""
    tasks = Tasks(on_failure)
    async with AsyncExitStack() as stack:
        side = await stack.enter_async_context(
            upstream_side(settings, clocks=clocks, metrics=metrics, tasks=tasks)
        )
        return Tenure(side, stack.pop_all(), tasks)
