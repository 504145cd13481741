"""Compressed, binary and streamed bodies cross as they are: equal by SHA-256 at both doors."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from proxy.runtime.proxy import run_proxy
from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.objects import apply
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import new_certificates
from tests.support.http_client import connected
from tests.support.impersonation import Caller, Header, Rights, may
from tests.support.scripted_api_server import (
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CBOR = "application/cbor"
OBJECTS = 20
# The API server compresses what is longer than 128 KiB.
LETTERS_EACH = 8_000
WATCH_LIST = (
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)


@pytest.fixture
def reader(cast: Cast, rights: Rights, namespace: str) -> Caller:
    caller = cast.user("reader")
    rights.grant(
        caller, may("get", "list", "update", "watch", resources=["configmaps"]), namespace=namespace
    )
    return caller


@pytest.fixture
def doors(
    understudy: ProxyProcess, native_api_server: ApiServer, reader: Caller
) -> tuple[ApiClient, ApiClient]:
    """Our door and the native one, for the same reader."""
    return understudy.client(reader.credential), native_api_server.client(reader.credential)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Many ConfigMaps in a namespace, and the store's revision when the last was made."""

    path: str
    revision: str


def change(admin: ApiClient, namespace: str, number: int, letter: str) -> None:
    metadata = {"name": f"object-{number:02}", "namespace": namespace}
    content = {"letters": letter * LETTERS_EACH, "number": str(number)}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    apply(admin, {**kind, "metadata": metadata, "data": content})


@pytest.fixture
def shelf(admin: ApiClient, namespace: str) -> Shelf:
    for number in range(OBJECTS):
        change(admin, namespace, number, chr(ord("a") + number % 26))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return Shelf(path, admin.call("GET", path)["metadata"]["resourceVersion"])


def accepting(kind: str, coding: str) -> list[Header]:
    return [("Accept", kind), ("Accept-Encoding", coding)]


def described(response: APIResponse) -> tuple[int, Sequence[str | None], str]:
    """Return everything about an answer that does not change from one to the next."""
    names = ("Content-Type", "Content-Encoding", "Vary", "Cache-Control")
    digest = hashlib.sha256(response.body).hexdigest()
    return response.status, [response.header(name) for name in names], digest


@pytest.mark.parametrize("kind", [JSON, PROTOBUF, TABLE, "application/yaml"])
def test_a_long_list_is_the_same_bytes_at_both_doors(
    doors: tuple[ApiClient, ApiClient], shelf: Shelf, kind: str
) -> None:
    target = f"{shelf.path}?resourceVersion={shelf.revision}&resourceVersionMatch=Exact"

    plain, reference = (
        door.request("GET", target, headers=accepting(kind, "identity")) for door in doors
    )
    squeezed, squeezed_reference = (
        door.request("GET", target, headers=accepting(kind, "gzip")) for door in doors
    )

    assert described(plain) == described(reference)
    assert described(squeezed) == described(squeezed_reference)
    assert (plain.status, plain.header("Content-Encoding")) == (200, None)
    if kind != TABLE:  # a table shows no contents, so it is not long enough to be compressed
        assert squeezed.header("Content-Encoding") == "gzip"
        assert gzip.decompress(squeezed.body) == plain.body


def test_a_coding_the_server_does_not_speak_is_refused_alike(
    doors: tuple[ApiClient, ApiClient], shelf: Shelf
) -> None:
    ours, native = (door.request("GET", shelf.path, headers=[("Accept", CBOR)]) for door in doors)

    assert ours.status == 406
    assert described(ours) == described(native)


def test_an_object_goes_up_in_protobuf_as_it_came_down(
    doors: tuple[ApiClient, ApiClient], shelf: Shelf
) -> None:
    target, sent_as = f"{shelf.path}/object-07", [("Accept", PROTOBUF), ("Content-Type", PROTOBUF)]
    down = doors[1].request("GET", target, headers=accepting(PROTOBUF, "identity"))

    ours, native = (door.request("PUT", target, headers=sent_as, body=down.body) for door in doors)

    assert down.body.startswith(b"k8s\0")
    assert ours.status == 200, ours.body
    assert described(ours) == described(native)


def frames_of(kind: str, body: bytes) -> list[bytes]:
    """Return the events of a watch, each in the bytes it came in."""
    if kind == JSON:
        return body.splitlines(keepends=True)
    frames, at = [], 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        frames.append(body[at:end])
        at = end
    return frames


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_a_streamed_list_is_the_same_events_at_both_doors(
    doors: tuple[ApiClient, ApiClient], shelf: Shelf, kind: str, coding: str
) -> None:
    target = f"{shelf.path}?{WATCH_LIST}&timeoutSeconds=1"
    stream = kind + (";stream=watch" if kind == PROTOBUF else "")

    def watch(door: ApiClient) -> APIResponse:
        return door.request("GET", target, headers=accepting(stream, coding))

    with ThreadPoolExecutor(2) as both:
        ours, native = both.map(watch, doors)

    # Where one flush ends and the next begins is chance, so compressed streams differ each time;
    # and the bookmark at the end of the list tells the store's revision, which moves on by itself.
    listed, reference = (
        [frame for frame in frames_of(kind, unzipped(one)) if b"ADDED" in frame[:40]]
        for one in (ours, native)
    )
    assert len(listed) == OBJECTS
    assert sha256(listed) == sha256(reference)
    assert described(ours)[:2] == described(native)[:2]
    assert ours.header("Content-Encoding") == (None if coding == "identity" else coding)


def sha256(frames: list[bytes]) -> list[str]:
    return [hashlib.sha256(frame).hexdigest() for frame in frames]


def unzipped(response: APIResponse) -> bytes:
    squeezed = response.header("Content-Encoding") == "gzip"
    return b"".join(members_of(response.body)) if squeezed else response.body


def members_of(body: bytes) -> list[bytes]:
    """Return what each gzip member of a body holds; a torn member is an error."""
    members = []
    while body:
        member = zlib.decompressobj(wbits=31)
        members.append(member.decompress(body))
        assert member.eof, "the last member is torn"
        body = member.unused_data
    return members


@pytest.fixture
def recorded(
    native_api_server: ApiServer, admin: ApiClient, shelf: Shelf, namespace: str
) -> APIResponse:
    """A watch of the real server in several gzip members: the list at first, then changes."""
    target = f"{shelf.path}?{WATCH_LIST}&timeoutSeconds=2"
    with ThreadPoolExecutor(1) as background:
        watching = background.submit(
            native_api_server.admin.request, "GET", target, headers=accepting(JSON, "gzip")
        )
        for number in count():
            if watching.done():
                break
            change(admin, namespace, number % OBJECTS, chr(ord("A") + number % 26))
    return watching.result()


async def test_a_recorded_stream_of_many_gzip_members_crosses_byte_for_byte(
    recorded: APIResponse, tmp_path: Path
) -> None:
    certificates = new_certificates()
    kind = recorded.header("Content-Type")

    async def play(connection: ScriptedConnection, request: SeenRequest) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\n"
        await connection.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(recorded.body), 999):
            piece = recorded.body[at : at + 999]
            await connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await connection.send(b"0\r\n\r\n")

    async with scripted_api_server(certificates) as api:
        settings = settings_for(api, certificates, tmp_path)
        async with run_proxy(settings) as proxy:
            context = certificates.client_context("alice")
            await wait_until_it_admits(proxy.address, context)
            api.script = play
            async with connected(proxy.address, context) as client:
                answer = await client.request()

    assert len(members_of(recorded.body)) > 1
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(recorded.body).digest()
    assert answer.values("content-encoding") == ["gzip"]
