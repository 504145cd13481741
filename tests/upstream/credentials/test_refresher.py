"""When our credential is looked at again, and that nothing ends the looking."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.credentials.credentials import CredentialsError
from proxy.upstream.credentials.refresher import CredentialRefresher
from tests.support.event_loops import eventually


class Credential:
    """A credential that does as it is told."""

    def __init__(self) -> None:
        self.looks: list[bool] = []
        self.outcome: bool | Exception = False
        self.expires_at = 100.0

    async def refresh(self, *, renew: bool = False) -> bool:
        self.looks.append(renew)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Kept:
    """A credential and its keeper."""

    def __init__(self, every_seconds: float) -> None:
        self.credential = Credential()
        self.changes = 0
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.metrics = CollectorRegistry()
        self.refresher = CredentialRefresher(
            "forwarder",
            self.credential,
            every_seconds=every_seconds,
            when_changed=self._changed,
            counter=UpstreamMetrics(self.metrics),
            tasks=self.tasks,
        )
        self.tasks.start_background(self.refresher.run())

    def count(self, outcome: str) -> float:
        labels = {"identity": "forwarder", "outcome": outcome}
        name = "understudy_proxy_credential_reloads_total"
        return self.metrics.get_sample_value(name, labels) or 0

    @property
    def expiry(self) -> float | None:
        name = "understudy_proxy_credential_expiry_seconds"
        return self.metrics.get_sample_value(name, {"identity": "forwarder"})

    def _changed(self) -> None:
        self.changes += 1


@asynccontextmanager
async def kept(every_seconds: float) -> AsyncIterator[Kept]:
    kept = Kept(every_seconds)
    yield kept
    await kept.tasks.stop()


async def test_it_looks_again_and_again_without_renewing() -> None:
    async with kept(0.01) as kept_one:
        await eventually(lambda: len(kept_one.credential.looks) > 3)

    assert set(kept_one.credential.looks) == {False}
    assert kept_one.changes == 0


async def test_a_change_is_told() -> None:
    async with kept(0.01) as kept_one:
        kept_one.credential.outcome = True

        await eventually(lambda: kept_one.changes)


async def test_when_it_ends_is_told_and_what_became_of_new_ones_is_counted() -> None:
    async with kept(0.01) as kept_one:
        assert (kept_one.expiry, kept_one.count("used"), kept_one.count("refused")) == (100, 0, 0)

        kept_one.credential.outcome = CredentialsError("gone")
        await eventually(lambda: kept_one.count("refused") > 1)
        assert (kept_one.expiry, kept_one.count("used")) == (100, 0)

        kept_one.credential.outcome, kept_one.credential.expires_at = True, 200.0
        await eventually(lambda: kept_one.count("used"))
        assert kept_one.expiry == 200


@pytest.mark.parametrize("error", [CredentialsError("gone"), ZeroDivisionError("a bug")])
async def test_a_failure_does_not_end_the_looking(error: Exception) -> None:
    async with kept(0.01) as kept_one:
        kept_one.credential.outcome = error
        await eventually(lambda: len(kept_one.credential.looks) > 3)
        assert kept_one.changes == 0

        kept_one.credential.outcome = True
        await eventually(lambda: kept_one.changes)

    bugs = [failure for failure in kept_one.failures if failure is error]
    assert bool(bugs) is isinstance(error, ZeroDivisionError)


async def test_a_refusal_renews_at_once_and_many_do_not_renew_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.upstream.credentials.refresher.MIN_RENEWAL_INTERVAL_SECONDS", 0.2)
    async with kept(3600) as kept_one:
        assert kept_one.refresher.health_error() is None
        started = asyncio.get_running_loop().time()
        for _ in range(100):
            kept_one.refresher.report_rejected()
        assert kept_one.refresher.health_error() == "rejected by the API server"

        await goes_on_refusing(kept_one, lambda: len(kept_one.credential.looks) == 3)
        seconds = asyncio.get_running_loop().time() - started

        assert kept_one.credential.looks == [True] * 3
        assert seconds >= 0.4
        await eventually(lambda: kept_one.refresher.health_error() is None)
    assert len(kept_one.credential.looks) == 3


async def goes_on_refusing(kept_one: Kept, until: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not until():
            kept_one.refresher.report_rejected()
            await asyncio.sleep(0.01)
