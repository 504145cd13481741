"""A 403 from upstream: a denial of whom we speak for passes as it is, one of us never does.

Whose it is, only the API server tells. Kubelets, applications and aggregated servers may write what
they like.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from ssl import SSLContext

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from tests.core.selfcheck.test_denial import protobuf, status
from tests.scenarios.conftest import settings_for, status_of, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    OWN_NAME,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

RIGHT = 'impersonate resource "users" in API group "" at the cluster scope'
MISSING = "understudy_proxy_permission_denials_total"


def denial_of(user: str) -> str:
    return f'users "alice" is forbidden: User "{user}" cannot {RIGHT}'


def json_denial_of(verb: str) -> bytes:
    """Return a denial of the proxy that is no secret to anybody who knows Kubernetes."""
    resource = "users" if verb == "impersonate" else "secrets"
    cannot = f'cannot {verb} resource "{resource}" in API group "" at the cluster scope'
    message = f'{resource} "alice" is forbidden: User "{OWN_NAME}" {cannot}'
    return json.dumps(status(message, name="alice", kind=resource)).encode()


def json_denial(user: str) -> bytes:
    return json.dumps(status(denial_of(user), name="alice", kind="users")).encode()


def lose_rights(api: ScriptedApiServer) -> None:
    """Take from the proxy the right to be anybody."""
    api.own_calls.grants = lambda attributes: attributes["verb"] != "impersonate"


# Where somebody else than the API server may have answered.
RELAYED = {
    "node": "/api/v1/nodes/n1/proxy/pods",
    "old node proxy": "/api/v1/proxy/nodes/n1/pods",
    "service": "/api/v1/namespaces/a/services/s/proxy/x",
    "pod": "/api/v1/namespaces/a/pods/p/proxy/x",
    "log": "/api/v1/namespaces/a/pods/p/log",
    "aggregated": "/apis/metrics.example/v1/namespaces/a/things/b",
    "discovery": "/apis/metrics.example/v1",
    "no resource": "/openapi/v3/apis/metrics.example/v1",
}
FORGED = {
    "another identity": json_denial_of("impersonate"),
    "another right": json_denial_of("list"),
}
DENIALS: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "json": ("application/json", json_denial),
    "protobuf": (
        "application/vnd.kubernetes.protobuf",
        lambda user: protobuf(denial_of(user), name="alice"),
    ),
    "yaml": (
        "application/yaml",
        lambda user: f"apiVersion: v1\ncode: 403\nmessage: '{denial_of(user)}'\n".encode(),
    ),
}


@pytest.fixture
async def running(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], SSLContext],
) -> AsyncIterator[Proxy]:
    async with run_proxy(settings_for(api, certificates, tmp_path)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        yield proxy


@pytest.fixture
async def client(
    running: Proxy, context_of: Callable[[str | None], SSLContext]
) -> AsyncIterator[HttpClient]:
    async with connected(running.address, context_of("alice")) as client:
        yield client


def counted(running: Proxy) -> float | None:
    return running.registry.get_sample_value(MISSING)


class Denier:
    """Answers 403 with a body that comes in pieces, or at once with its length."""

    def __init__(self, media_type: str, *pieces: bytes, chunked: bool = False) -> None:
        self.media_type = media_type
        self.pieces = pieces
        self.chunked = chunked

    async def __call__(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        body = b"".join(self.pieces)
        framing = (
            b"Transfer-Encoding: chunked" if self.chunked else b"Content-Length: %d" % len(body)
        )
        head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: %b\r\nX-Mark: 1\r\n%b\r\n\r\n"
        await connection.send(head % (self.media_type.encode(), framing))
        for piece in self.pieces:
            await asyncio.sleep(0.01)
            await connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if self.chunked else piece)
        if self.chunked:
            await connection.send(b"0\r\n\r\n")


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("kind", DENIALS)
async def test_a_denial_of_us_is_an_error_of_ours(
    api: ScriptedApiServer,
    client: HttpClient,
    running: Proxy,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    *,
    chunked: bool,
) -> None:
    lose_rights(api)
    media_type, body_for = DENIALS[kind]
    body = body_for(OWN_NAME)
    api.script = Denier(media_type, body[:3], body[3:50], body[50:], chunked=chunked)

    answers = [await client.request(method, body=b"x") for method in ("POST", "PUT")]
    api.script = echo
    after = await client.request()

    for answer in answers:
        assert status_of(answer) == (500, "InternalError", 500)
        assert json.loads(answer.body)["message"] == f"the proxy's own identity cannot {RIGHT}"
        assert answer.values("x-mark") == []
    assert after.status == 200
    assert counted(running) == 2
    told = [record for record in caplog.records if record.message == "proxy permission missing"]
    assert len(told) == 1  # once a minute


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("kind", DENIALS)
async def test_a_denial_of_the_caller_passes_as_it_is(
    api: ScriptedApiServer, client: HttpClient, running: Proxy, kind: str, *, chunked: bool
) -> None:
    media_type, body_for = DENIALS[kind]
    body = body_for("alice")
    api.script = Denier(media_type, body[:3], body[3:], chunked=chunked)

    await client.send(request_bytes())
    head = await client.read_head()
    received = (
        await client.read_until(b"0\r\n\r\n") if chunked else await client.read_exactly(len(body))
    )

    assert head.status == 403
    assert head.values("x-mark") == ["1"]
    assert head.values("content-type") == [media_type]
    if chunked:
        received = b"".join(received.split(b"\r\n")[1:-2:2])
    assert received == body
    assert counted(running) == 0


@pytest.mark.parametrize(
    ("media_type", "first"),
    [
        ("application/json", b'{"error": "no"'),
        ("text/html", b"<html>"),
        ("application/json", b'{"kind":"Status",' + b" " * 64 * 1024),
        ("application/vnd.kubernetes.protobuf", b"nothing of ours"),
    ],
    ids=["json", "html", "long", "binary"],
)
async def test_nothing_else_is_ever_delayed(
    api: ScriptedApiServer, client: HttpClient, media_type: str, first: bytes
) -> None:
    """What an application streams arrives while it still streams."""

    async def stream(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x\r\n%b\r\n" % (media_type.encode(), len(first), first)
        )
        async with asyncio.timeout(20):
            await arrived.wait()
        await connection.send(b"4\r\nrest\r\n0\r\n\r\n")

    arrived = asyncio.Event()
    api.script = stream
    await client.send(request_bytes())

    assert (await client.read_head()).status == 403
    started = await client.read_until(first[:20])
    arrived.set()
    assert (await client.read_until(b"0\r\n\r\n")).endswith(b"4\r\nrest\r\n0\r\n\r\n")
    assert started


async def test_a_denial_without_a_body_passes(api: ScriptedApiServer, client: HttpClient) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        kind = "Content-Type: application/json"
        await connection.respond(b"", status="403 Forbidden", headers=(kind,))

    api.script = answer

    assert [(await client.request(method)).status for method in ("HEAD", "GET")] == [403, 403]


async def test_a_denial_that_breaks_off_is_a_502(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def cut(connection: ScriptedConnection, request: SeenRequest) -> None:
        head = (
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
        )
        await connection.send(head + b'\r\n{"kind":"Status"')
        await connection.cut()

    api.script = cut

    assert status_of(await client.request("POST", body=b"x")) == (502, "InternalError", 502)


async def test_who_leaves_while_its_denial_is_held_is_forgotten(
    api: ScriptedApiServer, running: Proxy, context_of: Callable[[str | None], SSLContext]
) -> None:
    async def half(connection: ScriptedConnection, request: SeenRequest) -> None:
        head = (
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
        )
        await connection.send(head + b'\r\n{"kind":"Status"')
        sent.set()
        await connection.reader.read()

    sent = asyncio.Event()
    api.script = half
    async with connected(running.address, context_of("bob")) as client:
        await client.send(request_bytes())
        await sent.wait()

    await eventually(lambda: api.open_forwarding == 0)


async def test_a_refused_upgrade_of_ours_is_an_error_of_ours_too(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    lose_rights(api)
    api.script = Denier("application/json", json_denial(OWN_NAME))

    await client.send(
        request_bytes(
            target="/api/v1/namespaces/a/pods/b/exec",
            headers=[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")],
        )
    )

    assert status_of(await client.read_response()) == (500, "InternalError", 500)
    assert await client.read_to_end() == b""


async def test_a_denial_of_us_may_come_before_the_body_has_ended(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def deny_early(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.readexactly(4)
        kind = "Content-Type: application/json"
        body = json_denial(OWN_NAME)
        await connection.respond(body, status="403 Forbidden", headers=(kind,))

    api.script = deny_early
    await client.send(request_bytes("PUT", headers=[("Content-Length", "8")]) + b"half")

    assert status_of(await client.read_response()) == (500, "InternalError", 500)


@pytest.mark.parametrize("body", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("target", RELAYED.values(), ids=RELAYED)
async def test_f11_a_backend_that_denies_something_to_the_proxy_forges_no_error_of_ours(
    api: ScriptedApiServer,
    client: HttpClient,
    running: Proxy,
    target: str,
    body: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.script = Denier("application/json", body)

    answer = await client.request(target=target)

    assert (answer.status, answer.body) == (403, body)
    assert answer.values("x-mark") == ["1"]
    assert counted(running) == 0
    assert "proxy permission missing" not in caplog.text


async def test_f11_a_kubelet_that_refuses_an_upgrade_forges_no_error_of_ours(
    api: ScriptedApiServer,
    client: HttpClient,
    running: Proxy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What an adversarial kubelet did: case `ws403own`."""
    api.script = Denier("application/json", json_denial(OWN_NAME))

    await client.send(
        request_bytes(
            target="/api/v1/namespaces/a/pods/b/exec?command=id",
            headers=[
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
            ],
        )
    )
    answer = await client.read_response()

    assert (answer.status, answer.body) == (403, json_denial(OWN_NAME))
    assert counted(running) == 0
    assert "proxy permission missing" not in caplog.text


@pytest.mark.parametrize("target", RELAYED.values(), ids=RELAYED)
async def test_f11_a_right_that_is_really_missing_is_an_error_of_ours_everywhere(
    api: ScriptedApiServer, client: HttpClient, running: Proxy, target: str
) -> None:
    lose_rights(api)
    api.script = Denier("application/json", json_denial(OWN_NAME))

    answer = await client.request(target=target)

    assert status_of(answer) == (500, "InternalError", 500)
    assert counted(running) == 1


async def test_f11_a_right_that_is_missing_for_somebody_else_confirms_nothing(
    api: ScriptedApiServer, client: HttpClient, running: Proxy
) -> None:
    """The forwarder may only be some users; the request's own one is among them."""
    own = {"alice"}
    api.own_calls.grants = lambda attributes: (
        attributes["resource"] != "users" or attributes.get("name") in own
    )
    api.script = Denier("application/json", json_denial(OWN_NAME))

    allowed = await client.request(target=RELAYED["node"])
    own.remove("alice")
    await asyncio.sleep(1.1)  # so long an answer about a right is believed
    missing = await client.request(target=RELAYED["node"])

    assert (allowed.status, missing.status) == (403, 500)
    assert counted(running) == 1


async def test_f11_in_doubt_a_denial_passes_and_is_not_counted(
    api: ScriptedApiServer, client: HttpClient, running: Proxy
) -> None:
    lose_rights(api)
    api.own_calls.grants_status = "500 Internal Server Error"
    api.script = Denier("application/json", json_denial(OWN_NAME))

    assert (await client.request(target=RELAYED["service"])).status == 403
    assert counted(running) == 0


async def test_f11_a_text_that_is_only_searched_proves_nothing(
    api: ScriptedApiServer, client: HttpClient, running: Proxy
) -> None:
    """A policy's message may repeat what a client has chosen; in YAML it is not told apart."""
    media_type, body_for = DENIALS["yaml"]
    api.script = Denier(media_type, body_for(OWN_NAME))

    answer = await client.request("POST", target="/api/v1/namespaces/a/pods", body=b"x")

    assert answer.status == 403
    assert counted(running) == 0


async def test_f11_a_flood_of_forged_denials_is_no_flood_of_questions(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.script = Denier("application/json", json_denial(OWN_NAME))
    right = {"verb": "impersonate", "resource": "users"}
    loop = asyncio.get_running_loop()
    started = loop.time()

    statuses = {(await client.request(target=RELAYED["node"])).status for _ in range(200)}

    assert statuses == {403}
    # Once a second, and once by the check of all our rights at the start.
    assert api.own_calls.asked_rights.count(right) <= 3 + loop.time() - started


async def test_f11_a_backends_401_never_renews_our_credential(
    api: ScriptedApiServer,
    client: HttpClient,
    running: Proxy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.read_body(request)
        body = json.dumps({"kind": "Status", "reason": "Unauthorized", "code": 401}).encode()
        await connection.respond(
            body, status="401 Unauthorized", headers=("Content-Type: application/json",)
        )

    api.script = refuse
    before = api.probes
    loop = asyncio.get_running_loop()
    started = loop.time()

    statuses = {(await client.request(target=RELAYED["node"])).status for _ in range(200)}

    assert statuses == {401}
    assert api.probes - before <= 2 + loop.time() - started
    assert running._upstream.credential_error() is None
    assert "proxy credential rejected" not in caplog.text
