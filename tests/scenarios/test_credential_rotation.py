"""Our own token, certificate and CA are replaced under load, and no client notices."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from proxy.runtime.proxy import run_proxy
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.scenarios.load import REFRESH, load_on, write_user
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected, request_bytes
from tests.support.scripted_api_server import (
    OWN_TOKEN,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
    scripted_api_server,
)

TOKENS = ["the-second-token", "the-third-token"]


def write_certificate(certificates: Certificates, directory: Path, name: str) -> dict[str, object]:
    """Write a client certificate and its key, one after the other, and return the user's section.

    In between the two do not belong together.
    """
    leaf = certificates.clients.issue_cert(common_name=name)
    certificate, key = directory / "own.crt", directory / "own.key"
    certificate.write_bytes(leaf.cert_chain_pems[0].bytes())
    key.write_bytes(leaf.private_key_pem.bytes())
    return {"client-certificate": str(certificate), "client-key": str(key)}


@pytest.fixture
def directory(tmp_path: Path, certificates: Certificates) -> Path:
    (tmp_path / "proxy").mkdir()
    certificates.write_server_ca(tmp_path)
    return tmp_path


async def in_thread(function: Callable[..., object], *arguments: object) -> None:
    await asyncio.to_thread(function, *arguments)


@pytest.mark.timeout(90)
async def test_a_token_file_is_rotated_without_a_failure(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    token_file = directory / "token"
    await in_thread(token_file.write_text, OWN_TOKEN)
    kubeconfig = write_user(api, directory, {"tokenFile": str(token_file)})

    async with load_on(api, certificates, directory, kubeconfig) as (load, _):
        for old, new in zip([OWN_TOKEN, *TOKENS], TOKENS, strict=False):
            api.own_tokens.add(new)
            await in_thread(token_file.write_text, f"{new}\n")
            await everything_carries(api, new)
            await load.goes_on()
            api.withdraw(old)
            await load.goes_on()

    assert set(load.statuses) == {200}
    assert api.refused == []


async def everything_carries(api: ScriptedApiServer, token: str) -> None:
    """Wait until both requests and reviews come with this token."""
    for seen in (api.requests, api.reviews):
        await eventually(partial(is_carried, seen, token), seconds=20)


def is_carried(seen: list[SeenRequest], token: str) -> bool:
    return any(request.values("authorization") == [f"Bearer {token}"] for request in seen)


@pytest.mark.timeout(90)
async def test_an_exec_plugin_is_run_again_before_its_token_expires(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    """Each token is good for a minute and a second, and is renewed a minute before its end."""
    runs = directory / "runs"
    plugin = directory / "plugin"
    await in_thread(write_plugin, plugin, runs, 61)
    api.own_tokens.update(f"run-{number}" for number in range(1, 100))
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    kubeconfig = write_user(api, directory, {"exec": command})

    async with load_on(api, certificates, directory, kubeconfig) as (load, _):
        for number in (1, 2):
            await everything_carries(api, f"run-{number + 1}")
            await load.goes_on()
            api.withdraw(f"run-{number}")
        await load.goes_on()

    assert set(load.statuses) == {200}
    assert api.refused == []
    assert len(runs.read_text()) < 30  # not at every look: there was one each 50 ms


def write_plugin(plugin: Path, runs: Path, seconds: int) -> None:
    """Write a program that counts its runs and gives a token of that number."""
    plugin.write_text(
        "#!/bin/sh\n"
        f"printf x >> {runs}\n"
        f"count=$(wc -c < {runs} | tr -d ' ')\n"
        f"expires=$(date -u -d '+{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ)\n"
        'printf \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "run-%s", "expirationTimestamp": "%s"}}\' "$count" "$expires"\n'
    )
    plugin.chmod(0o755)


@asynccontextmanager
async def asking_server(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    """An API server that knows the proxy by its certificate."""
    context = certificates.server_context()
    certificates.clients.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with scripted_api_server(certificates, context=context) as api:
        api.own_tokens.clear()
        api.own_certificates.add("proxy-1")
        yield api
        assert api.violations == []


@pytest.mark.timeout(90)
async def test_a_certificate_is_rotated_without_a_failure_and_old_connections_end(
    certificates: Certificates, directory: Path
) -> None:
    async with asking_server(certificates) as api:
        api.script = watch_or_echo
        kubeconfig = write_user(
            api, directory, write_certificate(certificates, directory, "proxy-1")
        )
        async with load_on(api, certificates, directory, kubeconfig) as (load, address):
            async with connected(address, certificates.client_context("watcher")) as watcher:
                await watcher.send(request_bytes(target="/api/v1/pods?watch=1"))
                assert (await watcher.read_head()).status == 200
                api.own_certificates.add("proxy-2")
                await in_thread(write_certificate, certificates, directory, "proxy-2")
                # All that is left of the old certificate is the watch, which goes on.
                await eventually(lambda: showing(api, "proxy-2"), seconds=20)
                await eventually(lambda: len(showing(api, "proxy-1")) == 1, seconds=20)
                (watched,) = showing(api, "proxy-1")
                await watched.send(b"5\r\nevent\r\n0\r\n\r\n")
                assert await watcher.read_until(b"\r\n0\r\n\r\n") == b"5\r\nevent\r\n0\r\n\r\n"
                # And when it is over, its connection is not used again.
                await eventually(lambda: showing(api, "proxy-1") == [], seconds=20)
            api.own_certificates.discard("proxy-1")
            await load.goes_on()

        assert set(load.statuses) == {200}
        assert api.refused == []


def forwarding(api: ScriptedApiServer) -> list[ScriptedConnection]:
    """Return the open connections that carry requests; those of reviews end by themselves."""
    return [one for number, one in api.connections.items() if number in api.forwarding]


def showing(api: ScriptedApiServer, name: str) -> list[ScriptedConnection]:
    """Return those that show this certificate of ours."""
    return [connection for connection in forwarding(api) if connection.client_name == name]


async def watch_or_echo(connection: ScriptedConnection, request: SeenRequest) -> None:
    if "watch=1" in request.target:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    else:
        await echo(connection, request)


@pytest.mark.timeout(90)
async def test_a_ca_is_rotated_without_a_failure(
    certificates: Certificates, directory: Path
) -> None:
    """First both CAs are trusted, then the server shows a certificate of the new one."""
    context = certificates.server_context()
    renewed = new_certificates()
    bundle = directory / "server-ca.crt"
    async with scripted_api_server(certificates, context=context) as api:
        kubeconfig = write_user(api, directory, {"token": OWN_TOKEN})
        async with load_on(api, certificates, directory, kubeconfig) as (load, _):
            opened = set(forwarding(api))
            both = certificates.servers.cert_pem.bytes() + renewed.servers.cert_pem.bytes()
            await in_thread(bundle.write_bytes, both)
            await eventually(lambda: opened.isdisjoint(forwarding(api)), seconds=30)
            renewed.servers.issue_cert("127.0.0.1").configure_cert(context)
            opened = set(forwarding(api))
            await in_thread(bundle.write_bytes, renewed.servers.cert_pem.bytes())
            await eventually(lambda: opened.isdisjoint(forwarding(api)), seconds=30)
            await load.goes_on()

        assert set(load.statuses) == {200}
        assert api.violations == []


@pytest.mark.timeout(90)
@pytest.mark.parametrize("broken", ["token", "kubeconfig", "server-ca.crt"])
async def test_a_file_that_cannot_be_used_leaves_the_old_credential_whole(
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    broken: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    token_file = directory / "token"
    await in_thread(token_file.write_text, OWN_TOKEN)
    kubeconfig = write_user(api, directory, {"tokenFile": str(token_file)})
    file = {"token": token_file, "kubeconfig": kubeconfig}.get(broken, directory / broken)

    async with load_on(api, certificates, directory, kubeconfig) as (load, _):
        caplog.clear()
        await in_thread(file.write_bytes, b"\0{")
        await eventually(lambda: "proxy credential not refreshed" in caplog.text, seconds=20)
        await load.goes_on()

    assert set(load.statuses) == {200}
    assert OWN_TOKEN not in caplog.text


@pytest.mark.timeout(90)
async def test_a_new_credential_of_another_identity_is_guarded_as_ours(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    """Nobody may act as us, whoever we are by now."""
    token_file = directory / "token"
    await in_thread(token_file.write_text, OWN_TOKEN)
    kubeconfig = write_user(api, directory, {"tokenFile": str(token_file)})
    headers = [("Impersonate-User", "system:serviceaccount:understudy:next")]

    async with (
        load_on(api, certificates, directory, kubeconfig) as (load, address),
        connected(address, certificates.client_context("mallory")) as client,
    ):
        assert (await client.request(headers=headers)).status == 200
        api.own_name = headers[0][1]
        api.own_tokens.add(TOKENS[0])
        await in_thread(token_file.write_text, TOKENS[0])
        async with asyncio.timeout(20):
            while (refused := await client.request(headers=headers)).status == 200:
                pass

    assert refused.status == 403
    assert set(load.statuses) == {200}


@asynccontextmanager
async def rotating(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> AsyncIterator[tuple[tuple[str, int], Path]]:
    """Run a proxy whose token is in a file, and return its address and that file."""
    token_file = directory / "token"
    await in_thread(token_file.write_text, OWN_TOKEN)
    kubeconfig = write_user(api, directory, {"tokenFile": str(token_file)})
    settings = settings_for(
        api, certificates, directory / "proxy", upstream={"credentialRefresh": REFRESH}
    )
    own = settings.upstream.model_copy(update={"kubeconfig": kubeconfig})
    async with run_proxy(settings.model_copy(update={"upstream": own})) as proxy:
        await wait_until_it_admits(proxy.address, certificates.client_context("early"))
        yield proxy.address, token_file


def asked_who(api: ScriptedApiServer, token: str) -> bool:
    """Return whether the proxy has asked who it is by this token; the answer may be held."""
    return any(
        seen.target.endswith("/selfsubjectreviews")
        and seen.values("authorization") == [f"Bearer {token}"]
        for seen in api.reviews
    )


NEXT_NAME = "system:serviceaccount:understudy:next"
AS_NEXT = [("Impersonate-User", NEXT_NAME)]


def as_itself(api: ScriptedApiServer, token: str) -> list[SeenRequest]:
    """Return what was forwarded with a credential as the very account that the credential is of."""
    shown = [f"Bearer {token}"]
    return [
        one
        for one in api.requests
        if one.values("authorization") == shown and one.user == NEXT_NAME
    ]


async def test_f13_a_new_credential_forwards_nothing_before_its_name_is_guarded(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    async with (
        rotating(api, certificates, directory) as (address, token_file),
        connected(address, certificates.client_context("mallory")) as mallory,
    ):
        # From here on this decision is remembered: it needs no answer of the API server.
        assert (await mallory.request(headers=AS_NEXT)).status == 200
        api.own_name = NEXT_NAME
        api.own_tokens.add(TOKENS[0])
        api.review_gate.clear()
        await in_thread(token_file.write_text, TOKENS[0])
        await eventually(lambda: asked_who(api, TOKENS[0]))

        meanwhile = [(await mallory.request(headers=AS_NEXT)).status for _ in range(3)]
        api.review_gate.set()
        async with asyncio.timeout(20):
            while (await mallory.request(headers=AS_NEXT)).status == 200:
                pass
        await mallory.request(headers=[("Impersonate-User", "bob")])

    assert set(meanwhile) == {200}  # with the credential of before
    assert as_itself(api, TOKENS[0]) == []
    assert api.requests[-1].values("authorization") == [f"Bearer {TOKENS[0]}"]


async def test_f13_a_decision_that_is_under_way_is_held_against_the_new_name(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    async with (
        rotating(api, certificates, directory) as (address, token_file),
        connected(address, certificates.client_context("mallory")) as mallory,
        connected(address, certificates.client_context("bob")) as bob,
    ):
        api.held_verbs = "impersonate"
        await mallory.send(request_bytes(headers=AS_NEXT))
        await eventually(lambda: api.held)
        api.own_name = NEXT_NAME
        api.own_tokens.add(TOKENS[0])
        await in_thread(token_file.write_text, TOKENS[0])
        async with asyncio.timeout(20):
            while api.requests[-1].values("authorization") != [f"Bearer {TOKENS[0]}"]:
                await bob.request()

        api.held_gate.set()
        answer = await mallory.read_response()

    assert answer.status == 403
    assert as_itself(api, TOKENS[0]) == []


async def test_f13_a_new_credential_that_the_api_server_does_not_know_is_not_used(
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        rotating(api, certificates, directory) as (address, token_file),
        connected(address, certificates.client_context("alice")) as alice,
    ):
        api.withdrawn.add(TOKENS[0])
        await in_thread(token_file.write_text, TOKENS[0])
        await eventually(lambda: "proxy credential not refreshed" in caplog.text)

        statuses = {(await alice.request()).status for _ in range(10)}

        api.withdrawn.discard(TOKENS[0])
        api.own_tokens.add(TOKENS[0])
        async with asyncio.timeout(20):
            while api.requests[-1].values("authorization") != [f"Bearer {TOKENS[0]}"]:
                statuses.add((await alice.request()).status)

    assert statuses == {200}


class SecondReviews:
    """Holds what the proxy asks about itself by a token, but for the first time."""

    def __init__(self, *tokens: str) -> None:
        self.gates = {token: asyncio.Event() for token in tokens}
        self.asked = dict.fromkeys(tokens, 0)

    def __call__(self, request: SeenRequest) -> asyncio.Event | None:
        token = (request.values("authorization") or [""])[0].removeprefix("Bearer ")
        if not request.target.endswith("/selfsubjectreviews") or token not in self.asked:
            return None
        self.asked[token] += 1
        return self.gates[token] if self.asked[token] > 1 else None


async def test_f13_a_late_answer_about_an_earlier_credential_changes_no_guard(
    api: ScriptedApiServer, certificates: Certificates, directory: Path
) -> None:
    """Each token is of another account; what is told about the second comes after the third."""
    second, third = TOKENS
    api.names_of_tokens = {second: "second", third: NEXT_NAME}
    api.gate_of = held = SecondReviews(second, third)
    async with (
        rotating(api, certificates, directory) as (address, token_file),
        connected(address, certificates.client_context("mallory")) as mallory,
    ):
        api.own_tokens |= {second, third}
        await in_thread(token_file.write_text, second)
        await eventually(lambda: held.asked[second] == 2)
        await in_thread(token_file.write_text, third)
        async with asyncio.timeout(20):
            while (await mallory.request(headers=AS_NEXT)).status == 200:
                pass

        held.gates[second].set()
        await eventually(lambda: held.asked[third] == 2)
        answer = await mallory.request(headers=AS_NEXT)
        held.gates[third].set()

    assert answer.status == 403
    assert as_itself(api, third) == []
