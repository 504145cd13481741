"""The admin port runs on both event loops."""

import asyncio
from collections.abc import Callable, Mapping

from tests.support.event_loops import BOTH_LOOPS


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return BOTH_LOOPS
