"""When our credential is looked at again, and that nothing ends the looking."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from kubernetes_asyncio.client import Configuration
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.kubeclient.kubeconfig import LoadedKubeconfig
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.credentials.credentials import UpstreamCredentials, load_credentials
from proxy.upstream.credentials.refresher import MIN_RENEWAL_INTERVAL_SECONDS, CredentialRefresher
from tests.support.event_loops import in_virtual_time


class Source:
    """A credential source that does as it is told."""

    def __init__(self) -> None:
        self.looks: list[bool] = []
        self.token = "first"
        self.error: Exception | None = None
        self.expires_at = 100.0

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        self.looks.append(last is None)
        if self.error is not None:
            raise self.error
        configuration = Configuration(host="https://api.example")
        configuration.api_key = {"BearerToken": f"Bearer {self.token}"}
        return LoadedKubeconfig(configuration, expires=datetime.fromtimestamp(self.expires_at, UTC))


class Kept:
    """A credential and its keeper."""

    def __init__(
        self, source: Source, credentials: UpstreamCredentials, every_seconds: float
    ) -> None:
        self.source = source
        self.changes = 0
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.metrics = CollectorRegistry()
        self.refresher = CredentialRefresher(
            "forwarder",
            credentials,
            every_seconds=every_seconds,
            counter=UpstreamMetrics(self.metrics),
            tasks=self.tasks,
        )
        self.refresher.when_changed = self._changed
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
    source = Source()
    credentials = await load_credentials(source)
    source.looks.clear()
    kept = Kept(source, credentials, every_seconds)
    yield kept
    await kept.tasks.stop()


@in_virtual_time
async def test_it_looks_again_and_again_without_renewing() -> None:
    async with kept(60) as kept_one:
        await asyncio.sleep(190)

    assert kept_one.source.looks == [False] * 3
    assert kept_one.changes == 0


@in_virtual_time
async def test_a_change_is_told() -> None:
    async with kept(60) as kept_one:
        kept_one.source.token = "second"
        await asyncio.sleep(59)
        assert kept_one.changes == 0

        await asyncio.sleep(2)
        assert kept_one.changes == 1


@in_virtual_time
async def test_when_it_ends_is_told_and_what_became_of_new_ones_is_counted() -> None:
    async with kept(60) as kept_one:
        assert (kept_one.expiry, kept_one.count("used"), kept_one.count("refused")) == (100, 0, 0)

        kept_one.source.error = OSError("gone")
        await asyncio.sleep(130)
        assert (kept_one.expiry, kept_one.count("used"), kept_one.count("refused")) == (100, 0, 2)

        kept_one.source.error, kept_one.source.expires_at = None, 200.0
        await asyncio.sleep(60)
        assert (kept_one.expiry, kept_one.count("used")) == (200, 1)


@pytest.mark.parametrize("error", [OSError("gone"), ZeroDivisionError("a bug")])
@in_virtual_time
async def test_a_failure_does_not_end_the_looking(error: Exception) -> None:
    async with kept(60) as kept_one:
        kept_one.source.error = error
        await asyncio.sleep(130)
        assert (len(kept_one.source.looks), kept_one.changes) == (2, 0)

        kept_one.source.error, kept_one.source.token = None, "second"
        await asyncio.sleep(60)
        assert kept_one.changes == 1

    bugs = [failure for failure in kept_one.failures if failure is error]
    assert bool(bugs) is isinstance(error, ZeroDivisionError)


@in_virtual_time
async def test_a_refusal_renews_at_once_and_many_do_not_renew_more_often() -> None:
    async with kept(3600) as kept_one:
        assert kept_one.refresher.health_error() is None
        for _ in range(100):
            kept_one.refresher.report_rejected()
        assert kept_one.refresher.health_error() == "rejected by the API server"

        for _ in range(149):  # 15 seconds
            await asyncio.sleep(0.1)
            kept_one.refresher.report_rejected()
        assert kept_one.source.looks == [True] * 3
        await asyncio.sleep(1)
        assert kept_one.refresher.health_error() is None
        await asyncio.sleep(3000)
    assert kept_one.source.looks == [True] * 3


@in_virtual_time
async def test_refusals_during_a_renewal_do_not_renew_again() -> None:
    """They may concern the credential that was just replaced."""
    async with kept(3600) as kept_one:
        kept_one.refresher.report_rejected()
        await asyncio.sleep(MIN_RENEWAL_INTERVAL_SECONDS - 1)
        kept_one.refresher.report_rejected()
        await asyncio.sleep(3000)

    assert kept_one.source.looks == [True]


@in_virtual_time
async def test_a_refusal_right_after_a_periodic_refresh_renews_at_once() -> None:
    async with kept(60) as kept_one:
        await asyncio.sleep(61)
        kept_one.refresher.report_rejected()
        await asyncio.sleep(1)

        assert kept_one.source.looks == [False, True]
