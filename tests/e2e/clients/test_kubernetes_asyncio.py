"""kubernetes-asyncio through the proxy, as oneself and as another: list, watch, exec."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSServerHandshakeError
from kubernetes_asyncio import config, watch
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration, CoreV1Api
from kubernetes_asyncio.client.models import V1ConfigMap, V1ObjectMeta
from kubernetes_asyncio.stream import WsApiClient
from kubernetes_asyncio.stream.ws_client import ERROR_CHANNEL, STDIN_CHANNEL, STDOUT_CHANNEL

from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.clients.conftest import PODS_NAMESPACE
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.event_loops import eventually
from tests.support.impersonation import Caller, Rights, may, may_be, may_do
from tests.support.kubelet import FakeKubelet

# The first test may have to build the fake kubelet.
pytestmark = pytest.mark.timeout(300)

EXEC = ("create", "get")
SEVERAL = 20


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a kubeconfig, and the headers every request is to carry."""

    kubeconfig: Path
    headers: Mapping[str, str]

    @asynccontextmanager
    async def client(self, kind: Callable[..., Any] = ApiClient) -> AsyncIterator[CoreV1Api]:
        """Open the API with a client of this kind; return when every connection is closed."""
        before = open_sockets()
        settings = Configuration()
        await config.load_kube_config(
            str(self.kubeconfig), client_configuration=settings, persist_config=False
        )
        async with kind(configuration=settings) as client:
            for name, value in self.headers.items():
                client.set_default_header(name, value)
            yield CoreV1Api(client)
        # The library closes its session, but does not wait for the far end of a WebSocket.
        await eventually(lambda: open_sockets() <= before, seconds=20)


def open_sockets() -> set[str]:
    """Return the sockets this process has open."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was the directory's own
            links.append(str(entry.readlink()))
    return {link for link in links if link.startswith("socket:")}


@pytest.fixture
def alice(cast: Cast, rights: Rights, namespace: str, kubelet: FakeKubelet) -> Caller:
    caller = cast.user("alice")
    rights.grant(caller, may("*", resources=["configmaps"]), namespace=namespace)
    rights.grant(caller, may(*EXEC, resources=["pods/exec"]), namespace=kubelet.namespace)
    return caller


@pytest.fixture
def deputy(cast: Cast, rights: Rights, alice: Caller) -> Caller:
    """May be alice in group dev, with ConfigMaps and for exec."""
    caller = cast.user("deputy")
    rights.grant(
        caller,
        may_be("user-info", "users", alice.name),
        may_be("user-info", "groups", "dev"),
        may_do("user-info", "create", "delete", "get", "list", "watch", resources=["configmaps"]),
        may_do("user-info", *EXEC, resources=["pods/exec"]),
    )
    return caller


@pytest.fixture
def as_alice(alice: Caller) -> dict[str, str]:
    return {"Impersonate-User": alice.name, "Impersonate-Group": "dev"}


@pytest.fixture(params=["itself", "another"])
def visitor(
    request: pytest.FixtureRequest,
    understudy: ProxyProcess,
    alice: Caller,
    as_alice: dict[str, str],
) -> Visitor:
    """Alice herself, or the deputy who acts as alice."""
    caller, headers = alice, {}
    if request.param == "another":
        caller, headers = request.getfixturevalue("deputy"), as_alice
    return Visitor(understudy.kubeconfig_for(caller.credential, name=fresh_name()), headers)


@pytest.fixture
def stranger(understudy: ProxyProcess, cast: Cast, as_alice: dict[str, str]) -> Visitor:
    """Asks to act as alice without leave."""
    credential = cast.user("stranger").credential
    return Visitor(understudy.kubeconfig_for(credential, name=fresh_name()), as_alice)


@pytest.fixture
def pod(kubelet: FakeKubelet) -> str:
    return kubelet.create_pod()


async def create(core: CoreV1Api, namespace: str, name: str) -> None:
    metadata = V1ObjectMeta(name=name)
    await core.create_namespaced_config_map(namespace, V1ConfigMap(metadata=metadata))


async def execute(core: CoreV1Api, pod: str, script: str, **options: Any) -> Any:
    """Run a script in a pod of the kubelet."""
    command: Any = ["sh", "-c", script]  # the library takes a list, its types know one word only
    return await core.connect_get_namespaced_pod_exec(
        pod, PODS_NAMESPACE, command=command, stdout=True, **options
    )


async def test_objects_are_listed_page_by_page(visitor: Visitor, namespace: str) -> None:
    names = [f"object-{number:02}" for number in range(SEVERAL)]
    async with visitor.client() as core:
        for name in names:
            await create(core, namespace, name)
        first = await core.list_namespaced_config_map(namespace, limit=SEVERAL - 1)
        rest = await core.list_namespaced_config_map(namespace, _continue=first.metadata._continue)

    assert [item.metadata.name for item in first.items + rest.items] == names


async def test_a_watch_ends_in_time_and_is_resumed_where_it_ended(
    visitor: Visitor, namespace: str
) -> None:
    async with visitor.client() as core, watch.Watch() as watcher:
        await create(core, namespace, "before")
        listed = await core.list_namespaced_config_map(namespace)
        await create(core, namespace, "during")
        position = listed.metadata.resource_version
        events = watcher.stream(
            core.list_namespaced_config_map, namespace, resource_version=position, timeout_seconds=1
        )
        seen = [(event["type"], event["object"].metadata.name) async for event in events]

        await core.delete_namespaced_config_map("during", namespace)
        resumed = watcher.stream(
            core.list_namespaced_config_map, namespace, resource_version=watcher.resource_version
        )
        next_event = await anext(resumed)

    assert seen == [("ADDED", "during")]
    assert (next_event["type"], next_event["object"].metadata.name) == ("DELETED", "during")


async def test_a_watch_shows_changes_while_they_happen(visitor: Visitor, namespace: str) -> None:
    async with visitor.client() as core, watch.Watch() as watcher:
        events = watcher.stream(core.list_namespaced_config_map, namespace)
        seen = []
        for number in range(SEVERAL):
            await create(core, namespace, f"object-{number}")
            seen.append((await anext(events))["object"].metadata.name)

    assert seen == [f"object-{number}" for number in range(SEVERAL)]


async def test_exec_returns_what_the_command_printed(visitor: Visitor, pod: str) -> None:
    script = "echo to-stdout; echo to-stderr >&2"
    async with visitor.client(WsApiClient) as core:
        printed = await execute(core, pod, script, stderr=True)

    assert sorted(printed.splitlines()) == ["to-stderr", "to-stdout"]


async def test_exec_carries_input_and_the_exit_code(visitor: Visitor, pod: str) -> None:
    script = "read line; echo got $line; exit 7"
    received: dict[int, bytes] = {}
    async with visitor.client(WsApiClient) as core:
        connecting = await execute(core, pod, script, stdin=True, _preload_content=False)
        async with connecting as channels:
            await channels.send_bytes(bytes([STDIN_CHANNEL]) + b"hello\n")
            async for message in channels:
                channel, content = message.data[0], message.data[1:]
                received[channel] = received.get(channel, b"") + content

    assert received[STDOUT_CHANNEL] == b"got hello\n"
    assert WsApiClient.parse_error_data(received[ERROR_CHANNEL]) == 7


async def test_a_stranger_may_neither_list_nor_watch_nor_exec_as_another(
    stranger: Visitor, namespace: str, pod: str
) -> None:
    refusals = []
    async with stranger.client() as core, watch.Watch() as watcher:
        with pytest.raises(ApiException) as refused:
            await core.list_namespaced_config_map(namespace)
        refusals.append(refused.value.status)
        with pytest.raises(ApiException) as refused:
            await anext(watcher.stream(core.list_namespaced_config_map, namespace))
        refusals.append(refused.value.status)
    async with stranger.client(WsApiClient) as core:
        with pytest.raises(WSServerHandshakeError) as handshake:
            await execute(core, pod, "true")

    assert [*refusals, handshake.value.status] == [403, 403, 403]
