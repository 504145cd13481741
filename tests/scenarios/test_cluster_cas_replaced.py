"""CAs that the cluster publishes, replaced while requests are served; some of them hostile."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, HttpClient, connected
from tests.support.loop_lag import watched_loop
from tests.support.scripted_api_server import ScriptedApiServer

NAMES = {
    "requestheader-allowed-names": "[]",
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
# A key of a kind that nobody knows: the last number of the object identifier is another one.
EC_KEY, UNKNOWN_KEY = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0277")


@pytest.fixture(scope="module")
def others() -> Certificates:
    return new_certificates()


def pem(*cas: trustme.CA) -> str:
    return "".join(ca.cert_pem.bytes().decode() for ca in cas)


@pytest.fixture
async def proxy(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Proxy]:
    """A proxy that follows the ConfigMap at once, and has learned of the first CA."""
    api.own_calls.published = {"client-ca-file": pem(certificates.clients)}
    document = settings_document(
        api, certificates, tmp_path, serving={"certificateRefresh": "20ms"}
    )
    document["authentication"] = {
        "clientCertificate": {"fromCluster": True},
        "frontProxy": {"fromCluster": True},
    }
    async with run_proxy(Settings.model_validate(document)) as proxy:
        async with connected(proxy.address, certificates.client_context("early")) as client:
            while (await client.request()).status != 200:  # noqa: ASYNC110 - only answers tell
                await asyncio.sleep(0.01)
        yield proxy


async def followed(api: ScriptedApiServer) -> None:
    """Wait until what is published now was read by a look that began after this."""
    reads = api.own_calls.published_reads
    await eventually(lambda: api.own_calls.published_reads >= reads + 2, seconds=10)


@pytest.mark.timeout(60)
async def test_a_ca_that_stays_is_never_refused_while_others_come_and_go(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, others: Certificates
) -> None:
    stop = asyncio.Event()
    statuses: list[int] = []

    async def work(user: str) -> None:
        context = certificates.client_context(user)
        while not stop.is_set():
            async with connected(proxy.address, context) as client:
                statuses.extend([(await client.request()).status for _ in range(10)])

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(f"user-{number}"))
        mine, theirs = certificates.clients, others.clients
        for cas in [(mine, theirs), (theirs, mine), (mine,)] * 4:
            api.own_calls.published = {"client-ca-file": pem(*cas)}
            await followed(api)
        stop.set()

    assert set(statuses) == {200}
    assert len(statuses) > 30


async def test_a_ca_that_is_gone_proves_nothing_from_the_next_look_on(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, others: Certificates
) -> None:
    async with connected(proxy.address, certificates.client_context("alice")) as client:
        assert (await client.request()).status == 200
        api.own_calls.published = {"client-ca-file": pem(others.clients)}
        await followed(api)

        for _ in range(5):
            assert (await client.request()).status == 401
    theirs = others.clients.issue_cert("client.test", common_name="bob")
    context = certificates.client_context(None)
    theirs.configure_cert(context)
    async with connected(proxy.address, context) as client:
        assert (await client.request()).status == 200


async def test_an_emptied_config_map_believes_nobody(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """An API server without --client-ca-file publishes none, and knows no certificates."""
    async with connected(proxy.address, certificates.client_context("alice")) as client:
        assert (await client.request()).status == 200
        api.own_calls.published = {}
        await followed(api)

        assert (await client.request()).status == 401


def unknown_key(ca: trustme.CA) -> str:
    body = re.sub(r"-----[^-]+-----", "", ca.cert_pem.bytes().decode())
    der = base64.b64decode(body).replace(EC_KEY, UNKNOWN_KEY)
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


DEEP = "[" * 200_000
HOSTILE: dict[str, Any] = {
    "deleted": None,
    "no mapping": [1, 2],
    "a number": {"client-ca-file": 7},
    "garbage": {"client-ca-file": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
    "not ASCII": {"client-ca-file": "\ud800\udfff\u0000"},
    "huge": {"client-ca-file": "x" * 3_000_000},
    "deep names": {
        **NAMES,
        "requestheader-client-ca-file": pem(trustme.CA()),
        "requestheader-allowed-names": DEEP,
    },
    "odd headers": {
        **NAMES,
        "requestheader-client-ca-file": pem(trustme.CA()),
        "requestheader-username-headers": '["X-Remote-User\\r\\nEvil"]',
    },
}
UNKNOWN_KEY_CA = unknown_key(trustme.CA())


@pytest.mark.parametrize("published", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_contents_change_nothing_and_do_not_end_the_looking(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, published: Any
) -> None:
    """If they ended it, a CA that is removed later would stay in force."""
    async with connected(proxy.address, certificates.client_context("alice")) as client:
        api.own_calls.published = published
        await followed(api)
        await asyncio.sleep(0.1)
        assert (await client.request()).status == 200

        api.own_calls.published = {}
        await followed(api)

        assert (await client.request()).status == 401


async def test_a_ca_whose_key_is_of_no_known_kind_vouches_for_nobody(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates
) -> None:
    """Go reads such a certificate, so it replaces the CA before it; later ones are read."""
    async with connected(proxy.address, certificates.client_context("alice")) as client:
        assert (await client.request()).status == 200

        api.own_calls.published = {"client-ca-file": UNKNOWN_KEY_CA}
        await followed(api)
        assert (await client.request()).status == 401

        api.own_calls.published = {"client-ca-file": UNKNOWN_KEY_CA + pem(certificates.clients)}
        await followed(api)
        assert (await client.request()).status == 200


async def test_a_thousand_cas_are_read_beside_the_event_loop(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, others: Certificates
) -> None:
    """As many as a ConfigMap has room for."""
    count = 1_000_000 // len(pem(certificates.clients))
    many = pem(certificates.clients) + pem(others.clients) * (count - 1)
    async with (
        connected(proxy.address, certificates.client_context("alice")) as client,
        watched_loop() as lag,
    ):
        api.own_calls.published = {"client-ca-file": many}
        await followed(api)
        assert (await client.request()).status == 200

    assert lag.worst_seconds < 0.5


async def test_what_a_connection_remembers_of_replaced_cas_is_bounded(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, others: Certificates
) -> None:
    async with connected(proxy.address, certificates.client_context("alice")) as client:
        for number in range(24):
            extra = [others.clients] * (number % 3)
            api.own_calls.published = {"client-ca-file": pem(certificates.clients, *extra)}
            await followed(api)
            assert (await client.request()).status == 200

        (connection,) = proxy._listener.connections
        assert 1 <= len(connection._peer.verification_cache) <= 8


FOR_CAROL: Headers = [("X-Remote-User", "carol")]


async def test_a_front_proxy_s_ca_that_is_gone_speaks_for_nobody(
    api: ScriptedApiServer, proxy: Proxy, certificates: Certificates, others: Certificates
) -> None:
    context = certificates.client_context(None)
    others.clients.issue_cert("client.test", common_name="front").configure_cert(context)
    with_it = {
        **NAMES,
        "client-ca-file": pem(certificates.clients),
        "requestheader-client-ca-file": pem(others.clients),
    }
    api.own_calls.published = with_it
    await followed(api)
    api.requests.clear()
    async with connected(proxy.address, context) as client:
        assert (await client.request(headers=FOR_CAROL)).status == 200
        assert [request.user for request in api.requests] == ["carol"]

        api.own_calls.published = {"client-ca-file": pem(certificates.clients)}
        await followed(api)
        assert await statuses(client) == {401}

        # A user's CA now: the same certificate is a user, and its word about others is nothing.
        api.own_calls.published = {"client-ca-file": pem(certificates.clients, others.clients)}
        await followed(api)
        assert await statuses(client) == {200}
    assert [request.user for request in api.requests] == ["carol"] + ["front"] * 3


async def statuses(client: HttpClient) -> set[int]:
    return {(await client.request(headers=FOR_CAROL)).status for _ in range(3)}


def test_the_hostile_contents_are_what_they_claim_to_be() -> None:
    with pytest.raises(RecursionError):
        json.loads(DEEP)
    assert EC_KEY not in base64.b64decode(re.sub(r"-----[^-]+-----", "", UNKNOWN_KEY_CA))
