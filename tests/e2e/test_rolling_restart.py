"""Two instances on one port: the new one starts, the old one ends, and no client notices."""

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import config, watch

from proxy.sandbox.api_client import ApiClient, ApiConnection, client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import KeyPair
from proxy.sandbox.objects import grant
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.control_plane import fresh_name
from tests.support.informer import running_informer
from tests.support.sizes import sized, soak
from tests.support.streaming import wait_until

pytestmark = pytest.mark.timeout(300)  # the first test may have to build the informer

GRACE_SECONDS = 25
# As usual, only sooner: some clients arrive at the old instance while it still lets them in.
SHUTDOWN = {
    "delay": "1s",
    "watchWindow": f"{sized(3, full=10)}s",
    "gracePeriod": f"{GRACE_SECONDS}s",
}
SETTINGS = {"serving": {"shutdown": SHUTDOWN}}
CONFIG_MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
LAST = "the-last-one"
# Every watch sees every object: more would be more than one process of Python can read, and a
# client that is busy with events for seconds misses the deadline of its next handshake.
PAUSE_SECONDS = sized(100, full=300) / 1000


@pytest.fixture
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    with ProxyProcess(control_plane, plain_api_server, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def user(control_plane: ControlPlane, admin: ApiClient) -> KeyPair:
    name = fresh_name("watcher")
    grant(admin, name, rules=CONFIG_MAPS, to={"kind": "User", "name": name})
    return control_plane.clients.issue_client(name)


@pytest.fixture
def kubeconfig(understudy: ProxyProcess, user: KeyPair) -> Path:
    client = understudy.client(user)
    target = "/api/v1/namespaces/default/configmaps"
    wait_until(lambda: client.request("GET", target).status == 200, "the grant does not work")
    return understudy.kubeconfig_for(user, name=fresh_name("kubeconfig"))


class Writer:
    """Creates objects through the proxy, one after the other, on a connection it keeps."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._target = f"/api/v1/namespaces/{namespace}/configmaps"
        self._connection: ApiConnection | None = None
        self._open = ExitStack()
        self.created: list[str] = []

    def create(self, name: str) -> None:
        if self._connection is None:
            self._connection = self._open.enter_context(self._client.connect())
        # Large and small ones: events that fit one chunk of the API server, and some that do not.
        value = "x" * (len(self.created) % 7 * 1000)
        body = {"metadata": {"name": name}, "data": {"value": value}}
        response = self._connection.request("POST", self._target, body=body)
        assert response.status == 201, f"{name}: {response.status} {response.body!r}"
        self.created.append(name)
        if response.header("Connection") == "close":
            self.close()

    def create_until(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self.create(f"object-{len(self.created)}")
            stopping.wait(PAUSE_SECONDS)

    def close(self) -> None:
        self._connection = None
        self._open.close()


def visit_until(stopping: threading.Event, client: ApiClient) -> None:
    """Ask again and again, each time on a new connection."""
    while not stopping.is_set():
        assert client.request("GET", "/version").status == 200
        stopping.wait(0.02)


@contextmanager
def traffic(writer: Writer, visitor: ApiClient) -> Iterator[None]:
    """Write and visit in threads for the time of the context; neither may see an error."""
    stopping = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(writer.create_until, stopping),
            pool.submit(visit_until, stopping, visitor),
        ]
        try:
            yield
        finally:
            stopping.set()
        for one in running:
            one.result()
    writer.create(LAST)
    writer.close()


def restart(understudy: ProxyProcess) -> None:
    """Replace the running instance, and see that the old one ends well and in time."""
    old = understudy.start_successor()
    old.send_signal(signal.SIGTERM)

    assert old.wait(GRACE_SECONDS + 5) == 0, old.log_tail()
    said = old.log_file.read_text()
    assert '"given_up":0' in said
    assert '"level":"error"' not in said


def test_an_informer_sees_every_event_and_no_error(
    understudy: ProxyProcess, kubeconfig: Path, user: KeyPair, namespace: str, tmp_path: Path
) -> None:
    writer = Writer(understudy.client(user), namespace)
    for number in range(5):
        writer.create(f"before-{number}")

    with running_informer(kubeconfig, namespace, log_file=tmp_path / "informer.log") as informer:
        informer.wait_until_told("synced")
        with traffic(writer, understudy.client(user)):
            restart(understudy)
        informer.wait_until_told("added", LAST)
        target = f"/api/v1/namespaces/{namespace}/configmaps/before-0"
        assert understudy.client(user).request("DELETE", target).status == 200
        informer.wait_until_told("deleted", "before-0")

    assert sorted(informer.names("added")) == sorted(writer.created)
    assert informer.names("added")[5:] == writer.created[5:]
    assert informer.lines("error", "lost", "updated") == []
    requests = informer.lines("request")
    assert [request["status"] for request in requests] == [200] * len(requests)
    assert {request["contentType"] for request in requests} == {
        "application/vnd.kubernetes.protobuf;stream=watch"
    }
    # It listed once, by watching and compressed, and resumed from there ever after.
    assert [request.get("isInitialEvents", False) for request in requests] == [True] + [False] * (
        len(requests) - 1
    )
    assert requests[0]["isGzip"]
    assert len(requests) >= 2
    assert informer.complaints() == []


@asynccontextmanager
async def library_clients(kubeconfig: Path) -> AsyncIterator[kubernetes.CoreV1Api]:
    configuration = kubernetes.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    configuration.connection_pool_maxsize = 0  # no limit
    async with kubernetes.ApiClient(configuration) as client:
        yield kubernetes.CoreV1Api(client)


async def watch_by_library(events: watch.Watch, stream: Callable[..., object]) -> list[str]:
    """Watch as kubernetes-asyncio does, which comes again by itself after a good end only."""
    seen: list[str] = []
    async with events:
        async for event in events.stream(stream):
            assert event["type"] == "ADDED"
            seen.append(event["object"]["metadata"]["name"])
            if seen[-1] == LAST:
                break
    return seen


async def until_it_has_begun(events: watch.Watch) -> None:
    while events.resp is None:  # noqa: ASYNC110 - the library has no event for it
        await asyncio.sleep(0.001)


async def watch_by_hand(
    session: aiohttp.ClientSession, target: str, version: str, began: asyncio.Event
) -> list[str]:
    """Watch and come again after a good end; anything else is an error."""
    seen: list[str] = []
    while True:
        url = f"{target}?watch=1&resourceVersion={version}"
        async with session.get(url, timeout=aiohttp.ClientTimeout()) as answer:
            assert answer.status == 200, await answer.text()
            began.set()
            async for line in answer.content:
                event = json.loads(line)
                assert event["type"] == "ADDED", event
                version = event["object"]["metadata"]["resourceVersion"]
                seen.append(event["object"]["metadata"]["name"])
                if seen[-1] == LAST:
                    return seen


async def watch_through_a_restart(
    understudy: ProxyProcess, user: KeyPair, kubeconfig: Path, *, namespace: str, count: int
) -> tuple[list[str], list[list[str]]]:
    """Return what was created, and what each watch has seen."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    listed = await asyncio.to_thread(understudy.client(user).call, "GET", path)
    version = listed["metadata"]["resourceVersion"]
    writer = Writer(understudy.client(user), namespace)
    # Made before anybody waits: for each one the library reads every CA of the machine.
    by_library = [watch.Watch("object") for _ in range(count // 2)]
    connector = aiohttp.TCPConnector(limit=0, ssl=client_context(understudy.ca_pem, user))
    async with (
        library_clients(kubeconfig) as api,
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        stream = partial(api.list_namespaced_config_map, namespace, resource_version=version)
        watches: list[asyncio.Task[list[str]]] = []
        # One after the other: hundreds of handshakes at once outlast their deadline on a busy
        # machine, and this is not about them.
        for one in by_library:
            watches.append(group.create_task(watch_by_library(one, stream)))
            await until_it_has_begun(one)
            began = asyncio.Event()
            by_hand = watch_by_hand(session, understudy.url + path, version, began)
            watches.append(group.create_task(by_hand))
            await began.wait()

        def write_and_restart() -> None:
            with traffic(writer, understudy.client(user)):
                restart(understudy)

        await asyncio.to_thread(write_and_restart)
    return writer.created, [one.result() for one in watches]


@soak
def test_watches_see_every_event_in_order_and_no_error(
    understudy: ProxyProcess, kubeconfig: Path, user: KeyPair, namespace: str
) -> None:
    created, seen = asyncio.run(
        watch_through_a_restart(
            understudy, user, kubeconfig, namespace=namespace, count=sized(50, full=200)
        )
    )

    assert len(created) > 20
    assert [one for one in seen if one != created] == []
