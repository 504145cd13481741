"""Headers of traces as an attack, and a collector that is hostile, slow or gone."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import RawTestServer

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.scenarios.test_tracing import SPAN, TRACE, TRACEPARENT, Collector
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.hostile_server import HostileConnection, HostileServer, hostile_server
from tests.support.http_client import Headers, connected
from tests.support.loop_lag import watched_loop
from tests.support.scripted_api_server import ScriptedApiServer

MEGABYTE = 1 << 20
NOT_KNOWN: Headers = [("Authorization", "Bearer of-nobody")]
SAMPLED = TRACEPARENT[1]


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    async with RawTestServer(collector.take) as server:
        yield collector, str(server.make_url("/v1/traces"))


@asynccontextmanager
async def traced_proxy(
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    **tracing: Any,
) -> AsyncIterator[Proxy]:
    """Run a proxy that makes spans; they are sent when it ends."""
    document = settings_document(api, certificates, directory)
    document["tracing"] = tracing
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, certificates.client_context("early"))
        api.requests.clear()
        yield proxy


@pytest.mark.parametrize(
    ("group", "extra"),
    [(None, []), ("strangers", []), (None, NOT_KNOWN)],
    ids=["a user", "of another group", "nobody"],
)
async def test_a_client_that_is_not_trusted_forces_no_span(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
    group: str | None,
    extra: Headers,
) -> None:
    """Otherwise whoever reaches the port makes each request four or five spans."""
    context = certificates.client_context(None if extra else "mallory", group=group)
    async with (
        traced_proxy(api, certificates, tmp_path, endpoint=collector[1]) as proxy,
        connected(proxy.address, context) as client,
    ):
        for _ in range(20):
            await client.request(headers=[TRACEPARENT, ("tracestate", "a=1"), *extra])

    assert collector[0].spans == []
    for seen in api.requests:
        (parent,) = seen.values("traceparent")
        assert TRACE not in parent
        assert int(parent.split("-")[3], 16) & 1 == 0
        assert seen.values("tracestate") == []


async def test_a_client_of_a_trusted_group_is_part_of_its_own_trace(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
) -> None:
    context = certificates.client_context("prometheus", group="system:monitoring")
    async with (
        traced_proxy(api, certificates, tmp_path, endpoint=collector[1]) as proxy,
        connected(proxy.address, context) as client,
    ):
        await client.request(headers=[TRACEPARENT])

    assert collector[0].named("list pods").parent_span_id.hex() == SPAN


async def test_a_trace_that_is_not_continued_is_sampled_by_the_rate_and_not_by_its_flag(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
) -> None:
    async with (
        traced_proxy(
            api, certificates, tmp_path, endpoint=collector[1], samplingRatePerMillion=1_000_000
        ) as proxy,
        connected(proxy.address, certificates.client_context("mallory")) as client,
    ):
        await client.request("PUT", headers=[("traceparent", SAMPLED.removesuffix("1") + "0")])

    assert "update pods" in {span.name for span in collector[0].spans}
    assert TRACE not in {span.trace_id.hex() for span in collector[0].spans}


HOSTILE: dict[str, Headers] = {
    "long parent": [("traceparent", SAMPLED + "-" + "a" * 8000)],
    "huge state": [TRACEPARENT, ("tracestate", "a=" + "b" * 60_000)],
    "many states": [TRACEPARENT, *[("tracestate", f"k{n}=v") for n in range(1000)]],
    "many members": [TRACEPARENT, ("tracestate", ",".join(f"k{n}=v" for n in range(3000)))],
    "many parents": [TRACEPARENT] * 1000,
    "huge baggage": [TRACEPARENT, ("baggage", "k=" + "v" * 60_000)],
    "zero ids": [("traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-01")],
    "version ff": [("traceparent", SAMPLED.replace("00-", "ff-", 1))],
    "all flags": [("traceparent", SAMPLED.removesuffix("01") + "ff")],
    "capitals": [("traceparent", SAMPLED.upper())],
    "no hex": [("traceparent", SAMPLED.replace("a", "z"))],
    "not ASCII": [("traceparent", SAMPLED), ("tracestate", "caf\xe9=\xff\x80")],
    "a line in it": [TRACEPARENT, ("tracestate", "a=1\tImpersonate-User: root")],
    "an odd state": [TRACEPARENT, ("tracestate", "a==,,;=" * 50)],
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_headers_of_a_trusted_client_cost_little_and_stay_bounded(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
    sent: Headers,
) -> None:
    context = certificates.client_context("prometheus", group="system:monitoring")
    async with (
        traced_proxy(api, certificates, tmp_path, endpoint=collector[1]) as proxy,
        connected(proxy.address, context) as client,
        watched_loop() as lag,
    ):
        for _ in range(3):
            assert (await client.request(headers=sent)).status == 200

    for seen in api.requests:
        assert len(seen.values("traceparent")) == 1
        assert len(seen.values("traceparent")[0]) == 55
        assert len(",".join(seen.values("tracestate"))) <= 1024
        assert seen.values("impersonate-user") == ["prometheus"]
    assert all(span.ByteSize() < 4096 for span in collector[0].spans)
    assert lag.worst_seconds < 0.5


async def test_no_name_of_a_span_is_as_long_as_a_path(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
) -> None:
    """2 048 spans may wait for the collector: with names of 60 KB that would be 120 MB."""
    async with (
        traced_proxy(
            api, certificates, tmp_path, endpoint=collector[1], samplingRatePerMillion=1_000_000
        ) as proxy,
        connected(proxy.address, certificates.client_context("mallory")) as client,
    ):
        await client.request(target="/api/v1/" + "x" * 60_000)
        await client.request(target="/api/v1/pods", headers=[("Audit-ID", "i" * 100_000)])

    assert max(len(span.name) for span in collector[0].spans) <= 256 + len("...TRUNCATED")
    assert all(span.ByteSize() < 4096 for span in collector[0].spans)


@pytest.mark.parametrize("tracing", ["on", "off"])
async def test_requests_under_way_keep_nothing_of_long_headers(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    collector: tuple[Collector, str],
    tracing: str,
) -> None:
    settings = {"endpoint": collector[1]} if tracing == "on" else {}
    async with traced_proxy(api, certificates, tmp_path, **settings) as proxy:
        async with connected(proxy.address, certificates.client_context("mallory")) as client:
            for _ in range(50):
                await client.request(headers=HOSTILE["huge state"])
        under_way = getattr(proxy._components.tracing, "_pending", {})
        await eventually(lambda: not under_way)


async def answer_without_end(connection: HostileConnection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    await connection.send_for_ever(b"x" * 65536)


async def redirect(connection: HostileConnection) -> None:
    await connection.send(
        b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/latest\r\nContent-Length: 0\r\n\r\n"
    )


async def redirect_without_end(connection: HostileConnection) -> None:
    await connection.send(
        b"HTTP/1.1 302 Go\r\nLocation: /v1/other\r\nContent-Length: 1000000000\r\n\r\n"
    )
    await connection.send_for_ever(b"x" * 65536)


async def bomb(connection: HostileConnection) -> None:
    await connection.send(
        b"HTTP/1.1 503 No\r\nRetry-After: 999999999\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 20\r\n\r\n" + b"\x1f\x8b" + b"\0" * 18
    )


async def drip(connection: HostileConnection) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000:
        await connection.send(bytes((byte,)))
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "attack",
    [HostileConnection.hang, answer_without_end, redirect, redirect_without_end, bomb, drip],
)
@pytest.mark.timeout(60)
async def test_a_hostile_collector_costs_spans_and_no_request(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    attack: Callable[[HostileConnection], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password canary\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with (
        hostile_server(None, attack) as hostile,
        traced_proxy(
            api,
            certificates,
            tmp_path,
            endpoint=f"http://127.0.0.1:{hostile.port}/v1/traces",
            samplingRatePerMillion=1_000_000,
        ) as proxy,
        connected(proxy.address, context_of("alice")) as client,
    ):
        await _ask_while_it_attacks(client, hostile)

    assert hostile.sent_bytes < 16 * MEGABYTE
    assert not any(b"authorization:" in request.lower() for request in hostile.requests)


async def _ask_while_it_attacks(client: Any, hostile: HostileServer) -> None:
    async with watched_loop() as lag:
        while not hostile.requests:
            assert (await client.request()).status == 200
        for _ in range(100):
            async with asyncio.timeout(2):
                assert (await client.request()).status == 200
    assert lag.worst_seconds < 0.5
