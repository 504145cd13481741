"""Guards 30 and 31: what one request makes the proxy write is bounded, whatever is in it."""

import io
import json
from pathlib import Path

import pytest

from proxy.core.audit.limits import EventLimits
from tests.scenarios.conftest import Connect
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

MEGABYTE = 1_000_000

HOSTILE = {
    "bad timeout": b"GET /api/v1/pods?timeout=" + b"%80" * (MEGABYTE // 3) + b" HTTP/1.1\r\n",
    "raw bytes in the query": b"GET /api?" + b"\x80" * MEGABYTE + b" HTTP/1.1\r\n",
    "markup in the query": b"GET /api?" + b"<" * MEGABYTE + b" HTTP/1.1\r\n",
    "long path": b"GET /" + b"a" * MEGABYTE + b" HTTP/1.1\r\n",
    "path that is escaped again": b"GET /" + b"|" * MEGABYTE + b" HTTP/1.1\r\n",
    "long names": b"GET /api/v1/namespaces/%b/pods/%b/log HTTP/1.1\r\n"
    % (b"n" * (MEGABYTE // 2), b"p" * (MEGABYTE // 2)),
    "long group": b"GET /apis/" + b"g" * MEGABYTE + b"/v1/things HTTP/1.1\r\n",
    "user agent": b"GET /api HTTP/1.1\r\nUser-Agent: " + b"<" * MEGABYTE + b"\r\n",
    "audit id": b"GET /api HTTP/1.1\r\nAudit-ID: " + b"a" * MEGABYTE + b"\r\n",
    "short audit id that is escaped": b"GET /api HTTP/1.1\r\nAudit-ID: " + b"<" * 64 + b"\r\n",
    "content type": b"POST /api/v1/pods HTTP/1.1\r\nContent-Length: 0\r\n"
    b"Content-Type: application/protobuf" + b"a" * MEGABYTE + b"\r\n",
    "wanted user": b"GET /api HTTP/1.1\r\nImpersonate-User: " + b"u" * MEGABYTE + b"\r\n",
    "forwarded for": b"GET /api HTTP/1.1\r\nX-Forwarded-For: "
    + b"10.0.0.1," * (MEGABYTE // 9)
    + b"\r\n",
    "selector": b"GET /api/v1/pods?labelSelector=" + b"(" * MEGABYTE + b" HTTP/1.1\r\n",
    "not a method": b"A" * MEGABYTE + b" / HTTP/1.1\r\n",
    "no head": b"\x00" * MEGABYTE + b"\r\n",
    "trace": b"GET /api HTTP/1.1\r\nTraceparent: " + b"0" * MEGABYTE + b"\r\n",
}


LIMITS = EventLimits()
# The number of docs/security/log-amplification.md, not the code's, which a mutant takes away.
MOST_LINE_BYTES = 4096


async def events_of_attack(connect: Connect, audit_log: Path, attack: str) -> list[bytes]:
    """Send one request without a credential, and return the lines of its events."""
    async with connect(None) as client:
        await client.send(HOSTILE[attack] + b"Host: a\r\n\r\n")
        answer = await client.read_response()
    is_recorded = answer.status in {400, 401}
    return await lines_of(audit_log, answer.values("audit-id")[0], count=int(is_recorded))


async def lines_of(audit_log: Path, audit_id: str, *, count: int) -> list[bytes]:
    """Wait for that many events of a request, and return their lines."""

    def found() -> list[bytes]:
        lines = audit_log.read_bytes().rpartition(b"\n")[0].splitlines() if count else []
        return [line for line in lines if json.loads(line)["auditID"] == audit_id]

    await eventually(lambda: len(found()) == count)
    return found()


@pytest.mark.parametrize("attack", HOSTILE)
async def test_30_an_unauthenticated_megabyte_leaves_one_short_event(
    connect: Connect, audit_log: Path, attack: str
) -> None:
    for line in await events_of_attack(connect, audit_log, attack):
        assert len(line) <= LIMITS.max_unauthenticated_bytes
        assert json.loads(line)["stage"] == "ResponseStarted"


@pytest.mark.parametrize("attack", HOSTILE)
async def test_31_an_unauthenticated_megabyte_leaves_one_short_line(
    connect: Connect, debug_log: io.StringIO, attack: str
) -> None:
    before = debug_log.getvalue()
    async with connect(None) as client:
        await client.send(HOSTILE[attack] + b"Host: a\r\n\r\n")
        audit_id = (await client.read_response()).values("audit-id")[0]
        quoted = json.dumps(audit_id)[1:-1]
        await eventually(lambda: quoted in debug_log.getvalue())

    lines = debug_log.getvalue().removeprefix(before).splitlines()
    assert len([line for line in lines if quoted in line]) == 1
    assert sum(map(len, lines)) <= MOST_LINE_BYTES


KNOWN = {
    "target": ("/api/v1/pods?x=" + "<" * MEGABYTE, []),
    "path": ("/" + "a" * MEGABYTE, []),
    "names": (f"/api/v1/namespaces/{'n' * 400_000}/pods/{'p' * 400_000}", []),
    "wanted user": ("/api", [("Impersonate-User", "u" * 60_000)]),
    "wanted groups": (
        "/api",
        [("Impersonate-User", "u"), *[("Impersonate-Group", "g" * 900)] * 1000],
    ),
    "groups of nobody": ("/api", [("Impersonate-Group", "<" * 60_000)] * 15),
    "bad timeout": ("/api/v1/pods?timeout=" + "%3C" * 300_000, []),
}


@pytest.mark.parametrize("attack", KNOWN)
async def test_30_a_megabyte_of_a_known_caller_leaves_a_bounded_event(
    api: ScriptedApiServer, client: HttpClient, audit_log: Path, attack: str
) -> None:
    target, headers = KNOWN[attack]
    api.access_status = {"allowed": attack != "wanted user"}

    answer = await client.request("GET", target, headers=headers)

    (line,) = await lines_of(audit_log, answer.values("audit-id")[0], count=1)
    assert len(line) <= LIMITS.max_authenticated_bytes
    event = json.loads(line)
    assert event["responseStatus"]["code"] == answer.status
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"


@pytest.mark.parametrize("attack", KNOWN)
async def test_31_a_megabyte_of_a_known_caller_leaves_one_short_line(
    api: ScriptedApiServer, client: HttpClient, debug_log: io.StringIO, attack: str
) -> None:
    target, headers = KNOWN[attack]
    api.access_status = {"allowed": attack != "wanted user"}

    audit_id = (await client.request("GET", target, headers=headers)).values("audit-id")[0]

    await eventually(lambda: audit_id in debug_log.getvalue())
    (line,) = [one for one in debug_log.getvalue().splitlines() if audit_id in one]
    assert len(line) <= MOST_LINE_BYTES
