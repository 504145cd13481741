"""The audit trail under load and in trouble: nothing is lost that is not counted."""

import asyncio
import gzip
import json
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import status_of
from tests.support.audit_receiver import AuditReceiver, audit_receiver
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, Response, connected
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.serve_process import Understudy, serving
from tests.support.sizes import sized, soak

pytestmark = [
    pytest.mark.timeout(240),  # each starts Python anew, on a machine that may be busy
    pytest.mark.asyncio(loop_factories=["uvloop"]),  # only of the clients: it is another process
]

OUTAGE_SECONDS = sized(4, full=60)
CLIENTS = 8
LOST = "understudy_audit_events_lost_total"
STORED = "understudy_audit_events_stored_total"
REJECTED = "understudy_audit_requests_rejected_total"
QUICK_SHUTDOWN = {"delay": "0s", "watchWindow": "0s", "gracePeriod": "20s"}
QUICK_CALLS = {"batchMaxWait": "200ms", "initialBackoff": "200ms", "throttleQPS": 100}
PLENTY = {"bufferSize": 1_000_000, "bufferBytes": 4_000_000_000}
UNLIMITED = resource.RLIM_INFINITY


class Load:
    """Clients that never stop asking, and the id of every answer they had."""

    def __init__(self) -> None:
        self.answers: list[Response] = []
        self._stop = asyncio.Event()

    def ids(self, status: int = 200) -> set[str]:
        return {one.values("audit-id")[0] for one in self.answers if one.status == status}

    async def ask(self, understudy: Understudy) -> None:
        while not self._stop.is_set():
            try:
                async with connected(understudy.address, understudy.context) as client:
                    await self._ask_on(client.request)
            except (Cut, OSError):
                await asyncio.sleep(0.05)  # it has gone, and perhaps for good

    async def _ask_on(self, request: Any) -> None:
        while not self._stop.is_set():
            answer = await request()
            self.answers.append(answer)
            if answer.values("connection") == ["close"]:
                return

    async def goes_on(self, more: int = 100) -> None:
        before = len(self.answers)
        await eventually(lambda: len(self.answers) >= before + more, seconds=30)

    def stop(self) -> None:
        self._stop.set()


@asynccontextmanager
async def load_on(understudy: Understudy) -> AsyncIterator[Load]:
    """Ask all the time while the context lasts."""
    load = Load()
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(load.ask(understudy))
        await load.goes_on()
        yield load
        load.stop()


@pytest.fixture
async def receiver(certificates: Certificates) -> AsyncIterator[AuditReceiver]:
    async with audit_receiver(certificates) as receiver:
        yield receiver


async def webhook(
    receiver: AuditReceiver, certificates: Certificates, directory: Path, **settings: object
) -> dict[str, object]:
    """Return the section of a webhook that calls this receiver."""
    ca_file = certificates.write_server_ca(directory)
    kubeconfig = receiver.write_kubeconfig(directory, ca_file, token="of-the-proxy")
    return {"kubeconfig": str(kubeconfig), **QUICK_CALLS, **settings}


def complete_ids(events: list[dict[str, Any]]) -> list[str]:
    return [one["auditID"] for one in events if one["stage"] == "ResponseComplete"]


def events_in(file: Path) -> list[dict[str, Any]]:
    """Return every event; a line that is not one fails the test."""
    return [json.loads(line) for line in file.read_text().splitlines()]


async def is_served(understudy: Understudy) -> None:
    """Wait until callers are admitted."""
    await understudy.wait_for("/readyz", 200)


async def ends(understudy: Understudy) -> None:
    understudy.process.send_signal(signal.SIGTERM)
    assert await understudy.exit_code() == 0


@soak
async def test_a_receiver_that_is_down_loses_nothing_that_fits_the_buffer(
    api: ScriptedApiServer, certificates: Certificates, receiver: AuditReceiver, tmp_path: Path
) -> None:
    audit = {"webhook": await webhook(receiver, certificates, tmp_path, **PLENTY)}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            await eventually(lambda: receiver.events, seconds=10)
            await receiver.go_down()
            await asyncio.sleep(OUTAGE_SECONDS)
            held = await understudy.metric("understudy_audit_events_queued")
            await receiver.come_up()
            await load.goes_on()
        # However long the outage was: what is left then has only the grace period.
        await eventually_empty(understudy)
        lost = await understudy.metric(LOST)
        await ends(understudy)

    print(f"receiver down {OUTAGE_SECONDS} s: {held:.0f} held, {len(load.answers)} answered")  # noqa: T201 - figures for the record
    assert held > 100
    assert lost == 0
    assert {one.status for one in load.answers} == {200}
    received = complete_ids(receiver.events)
    assert load.ids() <= set(received)
    assert len(received) == len(set(received))


@soak
async def test_beyond_the_buffer_every_loss_is_counted_and_no_request_notices(
    api: ScriptedApiServer, certificates: Certificates, receiver: AuditReceiver, tmp_path: Path
) -> None:
    audit = {"webhook": await webhook(receiver, certificates, tmp_path, bufferSize=50)}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            await receiver.go_down()
            await load.goes_on(500)
            await asyncio.sleep(OUTAGE_SECONDS / 4)
            await receiver.come_up()
            received = len(receiver.events)
            await eventually(lambda: len(receiver.events) > received, seconds=90)
        await eventually_empty(understudy)
        lost = await understudy.metric(f'{LOST}{{backend="webhook",reason="buffer-full"}}')
        stored = await understudy.metric(STORED)
        await ends(understudy)

    assert {one.status for one in load.answers} == {200}
    assert lost > 0
    assert stored == len(receiver.events)
    missing = load.ids() - set(complete_ids(receiver.events))
    assert 0 < len(missing) <= lost


async def eventually_empty(understudy: Understudy) -> None:
    async with asyncio.timeout(90):
        while await understudy.metric("understudy_audit_events_queued"):  # noqa: ASYNC110 - only its metrics tell
            await asyncio.sleep(0.05)


def fill_disk(understudy: Understudy, audit_log: Path) -> None:
    """Let the file end in the middle of its next line."""
    size = audit_log.stat().st_size + 100
    resource.prlimit(understudy.process.pid, resource.RLIMIT_FSIZE, (size, UNLIMITED))


def empty_disk(understudy: Understudy) -> None:
    resource.prlimit(understudy.process.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))


async def test_a_full_disk_refuses_requests_before_anything_is_done_in_the_strict_mode(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    audit_log = tmp_path / "audit.log"
    audit = {"log": {"path": str(audit_log), "mode": "blocking-strict"}}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            fill_disk(understudy, audit_log)
            await eventually(lambda: load.ids(500), seconds=30)
            await load.goes_on()
            refused = [one for one in load.answers if one.status != 200]
            forwarded = len(api.requests)
            await load.goes_on()
            assert len(api.requests) == forwarded
            rejected = await understudy.metric(REJECTED)
            empty_disk(understudy)
            admitted = len(load.ids())
            await eventually(lambda: len(load.ids()) > admitted + 100, seconds=30)
        lost = await understudy.metric(LOST)
        await ends(understudy)

    assert {one.status for one in load.answers} == {200, 500}
    assert status_of(refused[0]) == (500, "InternalError", 500)
    assert json.loads(refused[0].body)["message"] == "failed to store audit event"
    assert rejected >= len(refused)
    assert lost == 0
    logged = set(complete_ids(events_in(audit_log)))
    assert load.ids() <= logged
    assert load.ids(500).isdisjoint(logged)  # or else they would take the room of the others


async def test_a_full_disk_makes_it_not_ready_and_refuses_whom_nobody_knows_in_the_strict_mode(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    audit_log = tmp_path / "audit.log"
    audit = {"log": {"path": str(audit_log), "mode": "blocking-strict"}}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        fill_disk(understudy, audit_log)
        assert (await understudy.get()).status == 200  # its event is the first that is too many
        await understudy.wait_for("/readyz", 503)

        _, page = await understudy.probe("/readyz")
        async with connected(understudy.address, certificates.client_context()) as nobody:
            failed_login = await nobody.request()  # would be an event, too
        empty_disk(understudy)

        assert "[-]audit failed: log cannot store events" in page
        assert failed_login.status == 500
        await understudy.wait_for("/readyz", 200)
        await ends(understudy)


@pytest.mark.parametrize("mode", ["blocking", "batch"])
async def test_a_full_disk_costs_events_and_no_request_in_the_other_modes(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path, mode: str
) -> None:
    audit_log = tmp_path / "audit.log"
    audit = {"log": {"path": str(audit_log), "mode": mode, "bufferSize": 50}}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            fill_disk(understudy, audit_log)
            await load.goes_on(500)
            failures = await understudy.metric("understudy_audit_backend_failures_total")
            empty_disk(understudy)
            await asyncio.sleep(2)  # it is tried again every second
            await load.goes_on()
        await eventually_empty(understudy)
        lost, stored = await understudy.metric(LOST), await understudy.metric(STORED)
        await ends(understudy)

    assert {one.status for one in load.answers} == {200}
    assert failures > 0
    events = events_in(audit_log)
    missing = load.ids() - set(complete_ids(events))
    assert 0 < len(missing) <= lost
    assert len(events) == stored


@pytest.mark.parametrize("mode", ["batch", "blocking-strict"])
async def test_a_disk_that_stalls_holds_up_whom_the_mode_says_and_never_the_event_loop(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path, mode: str
) -> None:
    os.mkfifo(tmp_path / "audit.log")
    reading = os.open(tmp_path / "audit.log", os.O_RDONLY | os.O_NONBLOCK)
    audit = {"log": {"path": str(tmp_path / "audit.log"), "mode": mode, "bufferSize": 50}}
    async with serving(api, certificates, tmp_path, audit=audit, **QUICK_SHUTDOWN) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:  # takes nothing from the pipe, which is soon full
            if mode == "batch":
                await load.goes_on(1000)
                lost = await understudy.metric(LOST)
            else:
                await eventually(lambda: load.ids(500), seconds=30)
                forwarded = len(api.requests)
                await load.goes_on(CLIENTS)
                assert len(api.requests) == forwarded
                lost = await understudy.metric(LOST)
            assert (await understudy.probe("/livez"))[0] == 200
        understudy.process.kill()
    os.close(reading)

    assert {one.status for one in load.answers} == ({200} if mode == "batch" else {200, 500})
    assert (lost > 0) == (mode == "batch")


async def test_after_sigterm_under_load_every_answered_request_has_its_event_in_both(
    api: ScriptedApiServer, certificates: Certificates, receiver: AuditReceiver, tmp_path: Path
) -> None:
    audit_log = tmp_path / "audit.log"
    audit = {
        "log": {"path": str(audit_log)},
        "webhook": await webhook(receiver, certificates, tmp_path, batchMaxWait="60s"),
    }
    async with serving(
        api, certificates, tmp_path, audit=audit, **{**QUICK_SHUTDOWN, "delay": "1s"}
    ) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            await load.goes_on(500)
            await ends(understudy)

    answered = {one.values("audit-id")[0] for one in load.answers}
    logged = complete_ids(events_in(audit_log))
    received = complete_ids(receiver.events)
    assert len(answered) > 500
    assert answered <= set(logged)
    assert answered <= set(received)
    assert len(logged) == len(set(logged))
    assert sorted(logged) == sorted(received)


async def test_a_receiver_that_is_gone_for_good_is_not_waited_for_beyond_the_grace_period(
    api: ScriptedApiServer, certificates: Certificates, receiver: AuditReceiver, tmp_path: Path
) -> None:
    audit = {"webhook": await webhook(receiver, certificates, tmp_path)}
    shutdown = {**QUICK_SHUTDOWN, "gracePeriod": "3s"}
    async with serving(api, certificates, tmp_path, audit=audit, **shutdown) as understudy:
        await is_served(understudy)
        await receiver.go_down()
        assert (await understudy.get()).status == 200

        understudy.process.send_signal(signal.SIGTERM)

        # On a busy machine the interpreter alone takes its time to end.
        assert await understudy.exit_code(seconds=10) == 0


async def test_a_second_signal_ends_the_wait_for_a_receiver(
    api: ScriptedApiServer, certificates: Certificates, receiver: AuditReceiver, tmp_path: Path
) -> None:
    audit = {"webhook": await webhook(receiver, certificates, tmp_path)}
    shutdown = {**QUICK_SHUTDOWN, "gracePeriod": "100s"}
    async with serving(api, certificates, tmp_path, audit=audit, **shutdown) as understudy:
        await is_served(understudy)
        await receiver.go_down()
        assert (await understudy.get()).status == 200

        understudy.process.send_signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await understudy.exit_code(seconds=4)
        understudy.process.send_signal(signal.SIGTERM)

        assert await understudy.exit_code(seconds=15) == 0


async def test_files_rotate_under_load_and_hold_every_event_once(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    directory = tmp_path / "audit"
    directory.mkdir()
    log = {"path": str(directory / "audit.log"), "maxSize": 1, "compress": True}
    async with serving(
        api, certificates, tmp_path, audit={"log": log}, **QUICK_SHUTDOWN
    ) as understudy:
        await is_served(understudy)
        async with load_on(understudy) as load:
            await eventually(lambda: len(list(directory.glob("*.gz"))) >= 2, seconds=90)
        await ends(understudy)

    logged = complete_ids(all_events(directory))
    assert load.ids() <= set(logged)
    assert len(logged) == len(set(logged))


def all_events(directory: Path) -> list[dict[str, Any]]:
    events = []
    for file in directory.iterdir():
        read = gzip.open if file.suffix == ".gz" else open
        with read(file, "rt") as lines:
            events += [json.loads(line) for line in lines]
    return events
