"""When the proxy's users are resolved again, and what is used of it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import UpstreamUnavailable
from proxy.kubeclient.kubeconfig import LoadedKubeconfig
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import ProxyDenialDetector
from proxy.upstream.credentials.credentials import UpstreamCredentials, load_credentials
from proxy.upstream.credentials.refresher import CredentialRefresher
from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.health import AuthorizerCanary
from proxy.upstream.identity.account import SHARED, ProxyAccount
from proxy.upstream.identity.missing_permissions import MissingPermissionChecker
from proxy.upstream.identity.monitor import (
    IdentityMonitor,
    PermissionSelfCheck,
    RecheckSignal,
    shared_permissions,
)
from proxy.upstream.identity.whoami import ProxyUser
from tests.support.event_loops import in_virtual_time

NAME = "system:serviceaccount:understudy:understudy"


class Source:
    """A credential whose token is set by the test."""

    token = "first"

    async def read(self, _: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        configuration = Configuration(host="https://api.example")
        configuration.api_key = {"BearerToken": f"Bearer {self.token}"}
        return LoadedKubeconfig(configuration)


class Client:
    """The API server's answers to the proxy's own calls."""

    def __init__(self) -> None:
        self.name: object = NAME
        self.is_down = False
        self.canary_allowed = False
        self.missing = ""
        self.is_sluggish = False
        self.resolved_at: list[float] = []

    async def call_api(self, path: str, _method: str, *, body: Any = None, **_: object) -> object:
        if path.endswith("/selfsubjectreviews"):
            self.resolved_at.append(asyncio.get_running_loop().time())
            name = self.name
            if self.is_sluggish:
                await asyncio.sleep(1)
            if self.is_down:
                raise ApiException(status=503)
            return {"status": {"userInfo": {"username": name}}}
        if path == "/version":
            return {"major": "1", "minor": "37"}
        if path.endswith("/subjectaccessreviews"):
            return {"status": {"allowed": self.canary_allowed}}
        asked = body["spec"]["resourceAttributes"]["resource"]
        return {"status": {"allowed": asked != self.missing}}


class Monitored:
    """A monitor of one account, and what it reported."""

    def __init__(self, source: Source, credentials: UpstreamCredentials) -> None:
        self.source, self.credentials = source, credentials
        self.client = Client()
        client = cast("ApiClient", self.client)
        self.recheck = RecheckSignal()
        self.known: list[frozenset[str]] = []
        self.failures: list[BaseException] = []
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self.tasks = TaskSet(self.failures.append)
        metrics = UpstreamMetrics(CollectorRegistry())
        self.account = ProxyAccount(
            SHARED,
            credentials,
            EndpointSet(credentials, self._clock),
            CredentialRefresher(
                SHARED, credentials, every_seconds=60, counter=metrics, tasks=self.tasks
            ),
            client,
            self._resolve_user,
        )
        check = PermissionSelfCheck(SHARED, client, shared_permissions(), metrics)
        self.monitor = IdentityMonitor(
            [(self.account, check)],
            canary=AuthorizerCanary(client, metrics),
            denials=ProxyDenialDetector(
                MissingPermissionChecker(_is_permitted, clock=self._clock, tasks=self.tasks),
                counter=metrics,
                clock=self._clock,
            ),
            recheck=self.recheck,
            tasks=self.tasks,
        )
        self.recheck.when_requested = self.monitor.check_soon
        self.tasks.start_background(
            self.monitor.run(lambda: self.known.append(self.monitor.usernames))
        )

    @property
    def resolved_at(self) -> list[float]:
        return [at - self._started for at in self.client.resolved_at]

    async def _resolve_user(self, *_: object) -> ProxyUser:
        if self.client.is_down:
            raise UpstreamUnavailable("no answer")
        return ProxyUser(str(self.client.name))


async def _is_permitted(_: object) -> bool:
    return True


@asynccontextmanager
async def monitored() -> AsyncIterator[Monitored]:
    source = Source()
    monitored = Monitored(source, await load_credentials(source))
    yield monitored
    await monitored.tasks.stop()
    assert monitored.failures == []


@in_virtual_time
async def test_the_users_are_resolved_at_once_and_every_ten_minutes() -> None:
    async with monitored() as one:
        assert one.monitor.health_error() == "the proxy's user names are not known yet"
        await one.monitor.first_attempt_done.wait()
        assert one.monitor.usernames == {NAME}
        assert one.monitor.supports_uid
        assert one.monitor.health_error() is None
        await asyncio.sleep(1201)

        assert one.resolved_at == [0, 600, 1200]
        assert one.known == [{NAME}], "told once: nothing changed"


@in_virtual_time
async def test_an_api_server_that_does_not_answer_is_asked_every_second_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with monitored() as one:
        one.client.is_down = True
        await one.monitor.first_attempt_done.wait()
        await asyncio.sleep(3.5)
        assert one.resolved_at == [0, 1, 2, 3]
        assert (one.monitor.usernames, one.known) == (frozenset(), [])

        one.client.is_down = False
        await asyncio.sleep(1)
        assert one.known == [{NAME}]
        one.client.is_down = True
        await asyncio.sleep(610)

        assert one.monitor.usernames == {NAME}, "what is known stays protected"
        unknown = [one for one in caplog.records if one.message == "proxy identity unknown"]
        assert len(unknown) == 2, "once per outage"


@in_virtual_time
async def test_while_the_canary_is_allowed_it_is_probed_every_five_seconds() -> None:
    async with monitored() as one:
        one.client.canary_allowed = True
        await asyncio.sleep(12)
        assert one.resolved_at == [0, 5, 10]

        one.client.canary_allowed = False
        await asyncio.sleep(100)
        assert one.resolved_at == [0, 5, 10, 15]


@in_virtual_time
async def test_a_new_credential_is_checked_at_once() -> None:
    async with monitored() as one:
        await asyncio.sleep(30)
        one.monitor.check_soon()
        await asyncio.sleep(1)

        assert one.resolved_at == [0, 30]


@in_virtual_time
async def test_denied_reviews_cause_one_check_per_interval() -> None:
    async with monitored() as one:
        for _ in range(90):
            await asyncio.sleep(10)
            one.recheck.review_denied()

        assert one.resolved_at == [0, 10, 610, 620]


@in_virtual_time
async def test_without_the_right_to_review_the_permissions_are_checked_every_five_seconds() -> None:
    async with monitored() as one:
        one.client.missing = "subjectaccessreviews"
        await asyncio.sleep(12)
        assert one.resolved_at == [0, 5, 10]
        assert "create subjectaccessreviews" in (one.monitor.permission_error() or "")

        one.client.missing = ""
        await asyncio.sleep(100)
        assert one.resolved_at == [0, 5, 10, 15]
        assert one.monitor.permission_error() is None


@in_virtual_time
async def test_a_name_that_was_resolved_with_a_replaced_credential_is_discarded() -> None:
    async with monitored() as one:
        one.client.is_sluggish = True
        one.client.name = "old"
        await asyncio.sleep(0.5)
        one.source.token = "second"
        one.client.name = "new"
        assert await one.credentials.refresh()
        await asyncio.sleep(10)

        assert one.known == [{"new"}]
        assert one.resolved_at == [0, 1]


@in_virtual_time
async def test_the_user_of_a_new_credential_is_protected_before_it_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with monitored() as one:
        await one.monitor.first_attempt_done.wait()
        with caplog.at_level(logging.INFO):
            one.client.name = "new"
            await one.monitor.resolve_new_credential(one.account, one.credentials.state)
        assert one.known == [{NAME}, {"new"}]

        one.client.is_down = True
        with pytest.raises(UpstreamUnavailable):
            await one.monitor.resolve_new_credential(one.account, one.credentials.state)
        assert one.monitor.usernames == {"new"}
