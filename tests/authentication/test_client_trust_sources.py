"""Where CAs come from: files, or the ConfigMap in which a cluster publishes them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.authentication.ca_bundle import ClientCAError, PEMBundle
from proxy.authentication.client_trust_sources import (
    ClientTrustConfig,
    FrontProxyFile,
    FrontProxyTrustConfig,
    TrustLoader,
    TrustSourceConfig,
)
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from tests.support.chains import Issuer

HEADERS = FrontProxyHeaderNames(
    (b"x-remote-user",), (b"x-remote-uid",), (b"x-remote-group",), (b"x-e-",)
)
PEM = Issuer().pem.decode()
# As kube-apiserver writes it.
PUBLISHED = {
    "client-ca-file": PEM,
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-client-ca-file": PEM,
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User","X-Other-User"]',
}
EVERYTHING = TrustSourceConfig(clients_from_cluster=True, front_proxy_from_cluster=True)


class Cluster:
    """Answers every question for the ConfigMap the same way."""

    def __init__(self) -> None:
        self.data: object = dict(PUBLISHED)
        self.status = 200
        self.body: str | None = None
        self.asked = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.path == (
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        )
        self.asked += 1
        text = self.body
        if text is None:
            text = json.dumps({"kind": "ConfigMap", "metadata": {}, "data": self.data})
        return web.Response(text=text, status=self.status, content_type="application/json")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    application = web.Application()
    application.router.add_get("/{path:.*}", cluster.handle)
    async with TestServer(application, host="127.0.0.1") as listening:
        cluster.url = str(listening.make_url("/")).rstrip("/")
        yield cluster


async def read(cluster: Cluster, where: TrustSourceConfig = EVERYTHING) -> ClientTrustConfig:
    async with ApiClient(Configuration(host=cluster.url)) as client:
        return await TrustLoader(where, client).read()


async def test_everything_that_is_published_is_told(cluster: Cluster) -> None:
    told = await read(cluster)

    assert told.client_ca is not None
    assert told.client_ca.pem.decode() == PEM
    assert "client-ca-file of ConfigMap kube-system/" in told.client_ca.origin
    assert told.front_proxy is not None
    assert told.front_proxy.ca.pem.decode() == PEM
    assert told.front_proxy.allowed_names == ("front-proxy-client",)
    assert told.front_proxy.headers == FrontProxyHeaderNames(
        (b"x-remote-user", b"x-other-user"),
        (b"x-remote-uid",),
        (b"x-remote-group",),
        (b"x-remote-extra-",),
    )


async def test_a_cluster_without_front_proxies_has_none(cluster: Cluster) -> None:
    cluster.data = {"client-ca-file": PEM}

    told = await read(cluster)

    assert told.client_ca is not None
    assert told.front_proxy is None


async def test_a_cluster_may_say_less(cluster: Cluster) -> None:
    """Before 1.33 nobody named a header for the uid; and names may be empty."""
    data = dict(PUBLISHED, **{"requestheader-allowed-names": "[]"})
    del data["requestheader-uid-headers"], data["requestheader-group-headers"]
    cluster.data = data

    told = await read(cluster)

    assert told.front_proxy is not None
    assert told.front_proxy.allowed_names == ()
    assert (told.front_proxy.headers.uid, told.front_proxy.headers.group) == ((), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-allowed-names", '"front-proxy-client"'),
        ("requestheader-allowed-names", "[1]"),
        ("requestheader-allowed-names", "{}"),
        ("requestheader-username-headers", "[]"),
        ("requestheader-username-headers", ""),
        ("requestheader-username-headers", '["X Remote User"]'),
        ("requestheader-group-headers", '[""]'),
        ("requestheader-extra-headers-prefix", '["X-Rémote-"]'),
        ("client-ca-file", 7),
    ],
)
async def test_half_a_message_is_none(cluster: Cluster, key: str, value: object) -> None:
    cluster.data = PUBLISHED | {key: value}

    with pytest.raises(ClientCAError, match="extension-apiserver-authentication"):
        await read(cluster)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_what_is_no_answer_is_told_without_its_body(cluster: Cluster, status: int) -> None:
    cluster.status, cluster.body = status, '{"message": "a secret"}'

    with pytest.raises(ClientCAError) as refused:
        await read(cluster)

    assert str(status) in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("body", ["", "[]", "null", '{"data": null}', "{}", '{"data": []}'])
async def test_what_is_no_config_map_is_no_answer(cluster: Cluster, body: str) -> None:
    cluster.body = body

    with pytest.raises(ClientCAError):
        await read(cluster)


async def test_nobody_at_home_is_no_answer() -> None:
    nowhere = Cluster()
    nowhere.url = "http://127.0.0.1:1"

    with pytest.raises(ClientCAError):
        await read(nowhere)


async def test_files_are_read_and_the_cluster_is_not_asked(
    cluster: Cluster, tmp_path: Path
) -> None:
    clients, front = tmp_path / "clients.crt", tmp_path / "front.crt"
    clients.write_bytes(b"clients")
    front.write_bytes(b"front")
    where = TrustSourceConfig(clients, front_proxy=FrontProxyFile(front, ("a",), HEADERS))

    told = await read(cluster, where)

    assert told.client_ca is not None
    assert (told.client_ca.pem, told.client_ca.origin) == (b"clients", str(clients))
    assert told.front_proxy == FrontProxyTrustConfig(
        PEMBundle(b"front", str(front)), ("a",), HEADERS
    )
    assert cluster.asked == 0
    front.unlink()
    with pytest.raises(ClientCAError, match=r"front\.crt"):
        await read(cluster, where)


async def test_one_may_come_from_a_file_and_the_other_from_the_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    clients = tmp_path / "clients.crt"
    clients.write_bytes(b"clients")

    told = await read(cluster, TrustSourceConfig(clients, front_proxy_from_cluster=True))

    assert told.client_ca is not None
    assert told.client_ca.pem == b"clients"
    assert told.front_proxy is not None
    assert told.front_proxy.ca.pem.decode() == PEM


async def test_where_nothing_is_believed_nothing_is_read(cluster: Cluster) -> None:
    assert await read(cluster, TrustSourceConfig()) == ClientTrustConfig()
    assert cluster.asked == 0
    assert not TrustSourceConfig().trusts_certificates
    assert EVERYTHING.trusts_certificates
