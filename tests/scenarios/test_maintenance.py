"""Housekeeping goes on after a failure: deadlines are kept and the heartbeat is heard."""

import logging
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from proxy.runtime import maintenance
from proxy.runtime.proxy import run_proxy
from proxy.serving.client_connection import ClientConnection
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.scripted_api_server import ScriptedApiServer


class Unreadable:
    """A connection with a fault: its deadline cannot be asked for, a few times."""

    exchange = None

    def __init__(self) -> None:
        self.asked = 0
        self.retires_at = math.inf

    @property
    def deadline(self) -> float | None:
        self.asked += 1
        if self.asked <= 3:
            raise RecursionError("maximum recursion depth exceeded")
        return None


async def test_failed_sweep_is_logged_and_the_next_one_is_done(
    api: ScriptedApiServer,
    certificates: Certificates,
    context_of: Callable[[str | None], ssl.SSLContext],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(maintenance, "SWEEP_SECONDS", 0.01)
    faulty = Unreadable()
    async with run_proxy(settings_for(api, certificates, tmp_path)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        connections = proxy._listener._connections
        connections.add(cast("ClientConnection", faulty))

        with caplog.at_level(logging.ERROR):
            await eventually(lambda: faulty.asked >= 4)
        connections.discard(cast("ClientConnection", faulty))

    failures = [record for record in caplog.records if record.message == "maintenance failed"]
    assert len(failures) == 3
    assert all(record.exc_info is not None for record in failures)
