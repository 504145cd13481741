"""Who sees the metrics when tokens are asked for; health is everybody's."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck
from proxy.admin.metrics_endpoint import MetricsAuthorizer
from proxy.admin.server import AdminPort, HealthChecks
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import ReviewRejected, Unauthorized, UpstreamUnavailable
from proxy.core.userinfo import UserInfo
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.admin import AdminSettings
from tests.admin.listening import AdminMetrics
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually

SCRAPER, EVE = UserInfo("scraper", groups=("g",)), UserInfo("eve")


class ApiServer:
    """Knows some tokens, and allows one owner one thing."""

    def __init__(self) -> None:
        self.reviewed: list[str] = []
        self.asked: list[AccessCheck] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    @property
    def guard(self) -> MetricsAuthorizer:
        return MetricsAuthorizer(_Tokens(self).review, _Access(self).review, clock=time.monotonic)


class _Tokens:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def review(self, token: str) -> UserInfo | None:
        self._server.reviewed.append(token)
        self._server.waiting += 1
        await self._server.gate.wait()
        if token == "odd":
            raise Unauthorized
        if token == "down":
            raise UpstreamUnavailable("no answer")
        others = {name: UserInfo(name) for name in ("silent", "giant")}
        return {"good": SCRAPER, "mighty": EVE, **others}.get(token)


class _Access:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def review(self, check: AccessCheck) -> CheckResult:
        self._server.asked.append(check)
        if check.user.name == "silent":
            raise UpstreamUnavailable("no answer")
        if check.user.name == "giant":
            raise ReviewRejected("access cannot be reviewed")
        return CheckResult(allowed=check.user == SCRAPER)


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def metrics() -> AdminMetrics:
    return AdminMetrics()


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def side(
    server: ApiServer, metrics: AdminMetrics, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[tuple[AdminPort, str]]:
    certificate, key = certificates.write_server_files(tmp_path)
    tasks = TaskSet(lambda error: None)
    with ReservedPort() as port:
        settings = AdminSettings.model_validate(
            {
                "address": f"{LOOPBACK}:{port.number}",
                "certificateFile": str(certificate),
                "keyFile": str(key),
                "metricsRequireAuthorization": True,
            }
        )
        guard = server.guard
        side = AdminPort(
            settings,
            registry=CollectorRegistry(),
            checks=HealthChecks(live=[], ready=[HealthCheck("never", lambda: "no")]),
            counter=metrics.counter,
            guard=lambda: guard,
            clock=time.monotonic,
        )
        await side.start(tasks, refresh_seconds=0.01)
        yield side, f"https://{LOOPBACK}:{port.number}"
        await tasks.stop()
        await side.stop()


class Scraper:
    """Asks, and trusts only the right certificate."""

    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        self._url = url
        self._context = context

    async def get(self, path: str, *shown: str) -> tuple[int, str]:
        headers = [("Authorization", one) for one in shown]
        async with (
            asyncio.timeout(10),
            aiohttp.ClientSession() as session,
            session.get(self._url + path, headers=headers, ssl=self._context) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
def scraper(side: tuple[AdminPort, str], certificates: Certificates) -> Scraper:
    return Scraper(side[1], certificates.client_context(None))


async def test_whoever_may_get_the_path_sees_the_metrics(
    scraper: Scraper, server: ApiServer
) -> None:
    status, page = await scraper.get("/metrics", "Bearer good")

    assert (status, "process_open_fds" in page) == (200, True)
    assert server.asked == [AccessCheck(SCRAPER, "get", is_resource=False, path="/metrics")]


@pytest.mark.parametrize(
    ("shown", "status", "told"),
    [
        ((), 401, "Unauthorized\n"),
        (("Bearer unknown",), 401, "Unauthorized\n"),
        (("Bearer odd",), 401, "Unauthorized\n"),
        (("Bearer ",), 401, "Unauthorized\n"),
        (("Basic good",), 401, "Unauthorized\n"),
        (("good",), 401, "Unauthorized\n"),
        (("Bearer good", "Bearer good"), 401, "Unauthorized\n"),
        (("Bearer gööd",), 401, "Unauthorized\n"),
        (("Bearer mighty",), 403, 'forbidden: User "eve" cannot get path "/metrics"\n'),
        (("Bearer down",), 503, "the API server does not answer\n"),
        (("Bearer silent",), 503, "the API server does not answer\n"),
        (("Bearer giant",), 400, "access cannot be reviewed\n"),
    ],
)
async def test_nobody_else_does(
    scraper: Scraper, shown: tuple[str, ...], status: int, told: str
) -> None:
    assert await scraper.get("/metrics", *shown) == (status, told)


@pytest.mark.parametrize("shown", [(), ("Bearer ",), ("Basic good",), ("Bearer a", "Bearer b")])
async def test_without_one_token_nothing_is_asked(
    scraper: Scraper, server: ApiServer, shown: tuple[str, ...]
) -> None:
    assert (await scraper.get("/metrics", *shown))[0] == 401
    assert server.reviewed == []


async def test_health_is_for_everybody(scraper: Scraper, server: ApiServer) -> None:
    assert await scraper.get("/livez") == (200, "ok")
    assert (await scraper.get("/readyz"))[0] == 503
    assert server.reviewed == []


async def test_a_flood_of_strangers_is_no_flood_of_reviews(
    scraper: Scraper, server: ApiServer
) -> None:
    server.gate.clear()
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(scraper.get("/metrics", "Bearer x")) for _ in range(8)]
        await eventually(lambda: server.waiting == 8)

        assert (await scraper.get("/metrics", "Bearer good"))[0] == 429
        assert server.waiting == 8
        server.gate.set()

    assert {task.result()[0] for task in first} == {401}
    assert (await scraper.get("/metrics", "Bearer good"))[0] == 200


async def test_bad_tokens_of_one_address_are_rationed(scraper: Scraper, server: ApiServer) -> None:
    statuses = [(await scraper.get("/metrics", f"Bearer {number}"))[0] for number in range(80)]

    assert statuses[0] == 401
    assert statuses[-1] == 429
    # The burst, and what comes back during the test.
    assert 50 <= len(server.reviewed) < 70


async def test_good_tokens_are_not(scraper: Scraper, server: ApiServer) -> None:
    async with asyncio.TaskGroup() as group:
        scrapes = [group.create_task(scraper.get("/metrics", "Bearer good")) for _ in range(8)]
    for _ in range(48):
        await scraper.get("/metrics", "Bearer mighty")
    assert {task.result()[0] for task in scrapes} == {200}

    assert (await scraper.get("/metrics", "Bearer good"))[0] == 200


async def test_a_token_that_is_too_long_is_not_reviewed(
    scraper: Scraper, server: ApiServer
) -> None:
    assert (await scraper.get("/metrics", f"Bearer {'x' * 8192}"))[0] == 400
    assert server.reviewed == []


async def test_a_new_certificate_is_shown_and_a_bad_one_is_not(
    scraper: Scraper,
    side: tuple[AdminPort, str],
    metrics: AdminMetrics,
    tmp_path: Path,
) -> None:
    assert (metrics.expires or 0) > 1.7e9
    others = new_certificates()
    _, key = others.write_server_files(tmp_path)
    await eventually(lambda: metrics.reloads.get("used"))
    refused = metrics.reloads.get("refused", 0)  # between certificate and key

    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await scraper.get("/livez")
    newer = Scraper(side[1], others.client_context(None))
    assert await newer.get("/livez") == (200, "ok")

    key.write_text("not a key")
    await eventually(lambda: metrics.reloads.get("refused", 0) > refused)

    assert metrics.reloads["used"] == 1
    assert await newer.get("/livez") == (200, "ok")


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            {"metricsRequireAuthorization": True},
            "metricsRequireAuthorization needs certificateFile and keyFile",
        ),
        ({"certificateFile": "a"}, "must be set together"),
        ({"keyFile": "a"}, "must be set together"),
    ],
)
def test_tokens_in_the_clear_and_half_a_certificate_are_refused(
    section: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        AdminSettings.model_validate(section)
