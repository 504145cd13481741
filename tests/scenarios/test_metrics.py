"""What a running proxy shows of itself, and that nobody else has a say in how it is called."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.admin.connections import CLOSE_REASONS
from proxy.runtime.proxy import run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.serving.limits.connections import EVICTION_REASONS
from proxy.serving.limits.handshakes import REASONS as HANDSHAKE_REASONS
from proxy.serving.limits.unauthenticated_memory import REASONS as HOLDING_REASONS
from proxy.settings.model import Settings
from proxy.telemetry.metrics.requests import (
    CODES,
    MODES,
    REASONS,
    VERBS,
)
from tests.scenarios.conftest import Connect, settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import Cut, HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    switch_protocols,
)

AS_CAROL = [("Impersonate-User", "carol")]
OUTCOMES = {"used", "refused", "allowed", "denied", "error", "authenticated", "found", "none"}
# Every value that a label may ever have; buckets and quantiles are numbers.
CLOSED: dict[str, frozenset[str] | set[str]] = {
    "verb": VERBS,
    "code": CODES,
    "long_running": {"true", "false"},
    "mode": MODES | {""},
    "decision": {"allowed", "denied"},
    "reason": REASONS
    | set(HANDSHAKE_REASONS)
    | set(CLOSE_REASONS)
    | set(EVICTION_REASONS)
    | set(HOLDING_REASONS)
    | {
        "timeout",
        "tls",
        "refused",
        "address",
        "turn",
        "abandoned",
        "size",
        "buffer-full",
        "shutdown",
    },
    "outcome": OUTCOMES,
    "kind": {"read", "write", "caller", "stream", "tunnel"},
    "state": {"idle", "busy"},
    "identity": {"reviewer", "forwarder", "shared"},
    "finding": {"missing", "excessive"},
    "cache": {"request", "identity"},
    "result": {"hit", "miss"},
    "action": {"allow", "warn"},
    "ca": {"clients", "front-proxies"},
    "page": {"livez", "readyz"},
    "check": {
        *("ping", "event-loop", "shutdown", "listener", "upstream", "proxy-identity"),
        *("proxy-credential", "proxy-permissions", "canary", "client-cas", "audit"),
    },
    "backend": {"log", "webhook"},
}
NUMBERS = {"le", "version"}


class Shown:
    """The metrics page."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        async with aiohttp.ClientSession() as session, session.get(self._url) as answer:
            page = await answer.text()
        return {
            (one.name, frozenset(one.labels.items())): one.value
            for family in text_string_to_metric_families(page)
            for one in family.samples
        }

    async def value(self, name: str, **labels: str) -> float:
        return (await self.samples()).get((name, frozenset(labels.items())), 0.0)

    async def wait_for(self, value: float, name: str, **labels: str) -> None:
        async with asyncio.timeout(10):
            while await self.value(name, **labels) != value:  # noqa: ASYNC110 - only it tells
                await asyncio.sleep(0.02)


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    with ReservedPort() as port:
        yield Shown(f"http://{LOOPBACK}:{port.number}/metrics")


@pytest.fixture
async def proxy(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    shown: Shown,
) -> AsyncIterator[tuple[str, int]]:
    document = settings_document(api, certificates, tmp_path)
    document["admin"] = {"address": shown._url.split("/")[2]}
    document["impersonation"] = {"legacy": "warn"}
    document["serving"]["limits"] = {"handshakeTimeout": "1s"}
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        yield proxy.address


async def test_requests_are_counted_by_verb_code_and_mode(
    shown: Shown, client: HttpClient, api: ScriptedApiServer
) -> None:
    before = await shown.value(
        "understudy_requests_total", verb="list", code="200", long_running="false"
    )

    await client.request()
    await client.request("POST", "/api/v1/namespaces/a/pods", body=b"{}")
    await client.request(headers=AS_CAROL)
    api.access_status = {"allowed": False}
    denied = await client.request(headers=[("Impersonate-User", "dave")])

    assert denied.status == 403
    counted = await shown.samples()

    def value(name: str, **labels: str) -> float:
        return counted[name, frozenset(labels.items())]

    requests = "understudy_requests_total"
    assert value(requests, verb="list", code="200", long_running="false") == before + 2
    assert value(requests, verb="create", code="200", long_running="false") == 1
    assert value(requests, verb="list", code="403", long_running="false") == 1
    assert value("understudy_requests_by_mode_total", mode="user-info") == 1
    # One of those that came too early is among them.
    assert value("understudy_requests_by_mode_total", mode="none") >= 1
    assert value("understudy_request_errors_total", reason="forbidden") == 1
    assert value("understudy_impersonation_denials_total", mode="user-info") == 1
    assert value("understudy_request_duration_seconds_count", verb="create") == 1
    assert value("understudy_access_review_duration_seconds_count", outcome="allowed") >= 1
    assert value("understudy_access_review_duration_seconds_count", outcome="denied") >= 1


async def test_legacy_impersonation_is_counted_with_what_the_rules_say(
    shown: Shown, client: HttpClient
) -> None:
    # A node with a group is left to the unrestricted verb.
    wanted = [("Impersonate-User", "system:node:n"), ("Impersonate-Group", "g")]
    assert (await client.request(headers=wanted)).status == 200

    assert await shown.value("understudy_legacy_impersonations_total", action="warn") == 1
    assert await shown.value("understudy_legacy_impersonations_total", action="allow") == 0
    assert await shown.value("understudy_requests_by_mode_total", mode="legacy") == 1


async def test_tunnels_streams_and_connections_are_shown_while_they_last(
    shown: Shown, connect: Connect, api: ScriptedApiServer
) -> None:
    async def serve(connection: ScriptedConnection, request: SeenRequest) -> None:
        if request.values("upgrade"):
            await switch_protocols(connection, request)
        else:
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.reader.read()

    api.script = serve
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    connections = await shown.value("understudy_client_connections")
    async with connect() as one, connect() as other:
        await one.send(request_bytes("POST", "/api/v1/namespaces/a/pods/b/exec", headers=upgrade))
        assert (await one.read_head()).status == 101
        await other.send(request_bytes("GET", "/api/v1/pods?watch=1"))
        assert (await other.read_head()).status == 200

        assert await shown.value("understudy_requests_in_flight", kind="tunnel") == 1
        assert await shown.value("understudy_requests_in_flight", kind="stream") == 1
        assert await shown.value("understudy_requests_in_flight", kind="read") == 0
        assert await shown.value("understudy_client_connections") == connections + 2
        assert await shown.value("understudy_upstream_connections", state="busy") == 2

    await shown.wait_for(0, "understudy_requests_in_flight", kind="tunnel")
    ended = {"code": "101", "long_running": "true", "verb": "create"}
    await shown.wait_for(1, "understudy_requests_total", **ended)
    await shown.wait_for(0, "understudy_upstream_connections", state="busy")


async def test_connections_to_the_api_server_are_counted(
    shown: Shown, client: HttpClient, api: ScriptedApiServer
) -> None:
    await client.request()
    assert await shown.value("understudy_upstream_connections", state="idle") == 1
    assert await shown.value("understudy_upstream_connections_opened_total") == 1
    assert await shown.value("understudy_upstream_reachable") == 1
    assert await shown.value("understudy_healthcheck", page="readyz", check="upstream") == 1

    api.stop_listening()
    for connection in list(api.connections.values()):
        await connection.cut()
    await shown.wait_for(0, "understudy_upstream_connections", state="idle")

    assert (await client.request()).status == 503
    assert await shown.value("understudy_upstream_connect_failures_total", reason="refused") == 1
    assert await shown.value("understudy_request_errors_total", reason="upstream-unavailable") >= 1
    await shown.wait_for(0, "understudy_upstream_reachable")
    await shown.wait_for(0, "understudy_healthcheck", page="readyz", check="upstream")


async def test_the_breaker_shows_when_it_opens_and_when_it_closes(
    shown: Shown, client: HttpClient, api: ScriptedApiServer
) -> None:
    assert await shown.value("understudy_review_breaker_open") == 0
    api.access_status, api.own_calls.answers_canaries = None, False
    for _ in range(6):
        assert (await client.request(headers=AS_CAROL)).status == 503
    async with asyncio.timeout(10):
        while await shown.value("understudy_review_breaker_open") != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    api.access_status, api.own_calls.answers_canaries = {"allowed": True}, True
    async with asyncio.timeout(10):
        while (await client.request(headers=AS_CAROL)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    assert await shown.value("understudy_review_breaker_open") == 0


async def test_tokens_that_are_remembered_are_counted(
    shown: Shown, connect: Connect, api: ScriptedApiServer
) -> None:
    api.tokens["good"] = "alice"
    async with connect(None) as client:
        for _ in range(3):
            await client.request(headers=[("Authorization", "Bearer good")])

    assert await shown.value("understudy_token_cache_lookups_total", result="miss") == 1
    assert await shown.value("understudy_token_cache_lookups_total", result="hit") == 2


async def test_certificates_show_when_they_end(shown: Shown, client: HttpClient) -> None:
    assert await shown.value("understudy_serving_certificate_expiry_seconds") > 1.7e9
    assert await shown.value("understudy_client_ca_expiry_seconds", ca="clients") > 1.7e9
    assert await shown.value("understudy_client_ca_expiry_seconds", ca="front-proxies") == 0
    assert await shown.value("understudy_event_loop_lag_seconds_count") >= 0


def shake_hands_as_a_stranger(address: tuple[str, int]) -> None:
    """Connect as somebody who trusts others than us, and says so."""
    context = ssl.create_default_context()
    with socket.create_connection(address) as plain:
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def shake_hands_with_too_much(address: tuple[str, int]) -> None:
    """Send the head of a record, and more of it than a handshake may have."""
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\x7f\xff" + b"\0" * (16 * 1024 - 4)
    with socket.create_connection(address) as plain, contextlib.suppress(OSError):
        plain.sendall(2 * record)
        plain.recv(1)


async def test_handshakes_that_fail_are_counted_by_reason(
    shown: Shown, proxy: tuple[str, int]
) -> None:
    name = "understudy_handshake_failures_total"

    _, writer = await asyncio.open_connection(*proxy)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await shown.wait_for(1, name, reason="not-tls")
    writer.close()

    _, writer = await asyncio.open_connection(*proxy)
    writer.close()
    await shown.wait_for(1, name, reason="left")

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(shake_hands_as_a_stranger, proxy)
    await shown.wait_for(1, name, reason="alert")

    await asyncio.to_thread(shake_hands_with_too_much, proxy)
    await shown.wait_for(1, name, reason="certificate")

    _, writer = await asyncio.open_connection(*proxy)
    await shown.wait_for(1, name, reason="timeout")
    writer.close()


HOSTILE_HEADS = [
    b"BREW /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"get /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n",
    b'GET /api/v1/evil"}{verb="x HTTP/1.1\r\nHost: a\r\n\r\n',
    b"OPTIONS /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS /evil HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /evil HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api/v1/proxy/evil/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api/v1/watch HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api/v1/watch/evil HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT /api/v1/evil/evil/evil HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nImpersonate-User: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nImpersonate-User: impersonate-on:evil:get\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nImpersonate-Group: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAudit-ID: evil\r\nUser-Agent: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nExpect: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer evil\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    b"evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"evil" * 300_000 + b"\r\n\r\n",
]
HOSTILE_STATUSES = ["299 Evil", "418 Evil", "451 Evil", "599 Evil", "777 Evil", "999 Evil"]


async def test_no_input_makes_a_new_label_value(
    shown: Shown, connect: Connect, api: ScriptedApiServer
) -> None:
    api.access_status = {"allowed": False, "reason": "evil"}
    for user in ("alice", None, 'evil"}'):
        for head in HOSTILE_HEADS:
            async with connect(user) as client:
                try:
                    await client.send(head)
                    await client.read_head()
                except (Cut, ConnectionError):
                    pass

    async def serve(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"evil", status=HOSTILE_STATUSES[int(request.target[1:])])

    api.script = serve
    for number in range(len(HOSTILE_STATUSES)):
        async with connect() as client:
            await client.request("GET", f"/{number}")

    samples = await shown.samples()
    found: dict[str, set[str]] = {}
    for _, labels in samples:
        for name, value in labels:
            found.setdefault(name, set()).add(value)
    strange = {name: values - CLOSED.get(name, set()) for name, values in found.items()}
    assert {name: values for name, values in strange.items() if values and name not in NUMBERS} == (
        {}
    )
    assert "evil" not in json.dumps([list(labels) for _, labels in samples])
    # And it was counted, under what it is called by us.
    codes = {dict(labels).get("code") for name, labels in samples if "requests_total" in name}
    assert {"other", "418", "451"} <= codes
