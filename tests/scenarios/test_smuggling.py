"""Whatever bytes a client sends: Go behind the proxy reads the requests it understood, or none."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import pytest
import uvloop

from proxy.runtime.proxy import run_proxy
from proxy.settings.audit import AuditSettings
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.smuggling.campaign import play_all
from tests.smuggling.cases import Case
from tests.smuggling.comparison import Report, compare
from tests.smuggling.framing_table import FRAMING
from tests.smuggling.generator import make_cases
from tests.smuggling.head_table import HEADS
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.go_server import GoServer, running_go_server
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.sizes import sized, soak

CASES = sized(2_000, full=20_000)
USERS = [f"user-{number}" for number in range(8)]
EARLY = "early"
SPARE = 2
TABLE = [*FRAMING, *HEADS]
Campaign = Callable[[Iterable[Case]], Awaitable[Report]]
pytestmark = pytest.mark.timeout(300)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def go_server(certificates: Certificates, tmp_path: Path) -> Iterator[GoServer]:
    with running_go_server(certificates, tmp_path) as server:
        yield server


@pytest.fixture
def campaign(
    go_server: GoServer,
    certificates: Certificates,
    context_of: Callable[[str | None], ssl.SSLContext],
    tmp_path: Path,
) -> Campaign:
    """Play cases against a proxy with Go's server behind it, and compare what came of them."""
    audit_file = tmp_path / "audit.log"
    audit = AuditSettings.model_validate({"log": {"path": str(audit_file)}})
    settings = settings_for(ScriptedApiServer(go_server.address), certificates, tmp_path)

    async def run(cases: Iterable[Case]) -> Report:
        async with run_proxy(settings.model_copy(update={"audit": audit})) as proxy:
            await wait_until_it_admits(proxy.address, context_of(EARLY))
            contexts = {user: context_of(user) for user in USERS}
            tasks, files = len(asyncio.all_tasks()), open_files()
            plays = await play_all(cases, proxy.address, contexts, seed=1)
            await eventually(lambda: all(one.body for one in go_server.requests()), seconds=30)
            # However rude a client was, nothing of it stays: no task, no socket but idle ones.
            await eventually(lambda: len(asyncio.all_tasks()) <= tasks + SPARE, seconds=10)
            await eventually(lambda: open_files() <= files + len(USERS) + SPARE, seconds=10)
        # Only now is every event in the file.
        events = [json.loads(line) for line in audit_file.read_bytes().splitlines()]
        read = [one for one in go_server.requests() if one.value("Impersonate-User") != EARLY]
        return compare(plays, read, events)

    return run


async def test_the_known_ways_to_smuggle_a_request_fail(campaign: Campaign) -> None:
    report = await campaign(TABLE)

    print(f"smuggling table, {len(TABLE)} cases: {report}")  # noqa: T201 - figures for the record
    assert report.faults == [], "\n".join(report.faults[:10])


@soak
async def test_corrupted_requests_are_understood_alike_or_refused(campaign: Campaign) -> None:
    # Each of the two loops gets cases of its own.
    seed = 1 + isinstance(asyncio.get_running_loop(), uvloop.Loop)
    report = await campaign(make_cases(seed, CASES))

    print(f"smuggling, {CASES} cases: {report}")  # noqa: T201 - figures for the record
    assert report.faults == [], "\n".join(report.faults[:10])
    assert {
        "broken off",
        "malformed body",
        "malformed head",
        "refused 400",
        "served",
        "tunnel",
    } <= set(report.outcomes)
