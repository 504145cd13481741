"""The hop from its start to its end: addresses, certificates, faults, the drain."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.serving.listener import ListenError
from proxy.sidecar.sidecar import (
    Sidecar,
    SidecarOptions,
    is_loopback,
    run_sidecar,
)
from tests.sidecar.conftest import AUTHORIZED, refusal_of, trusting
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest


async def test_a_server_that_cannot_be_reached_is_a_503(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    api.stop_listening()

    answer = await application.request(headers=AUTHORIZED)

    assert refusal_of(answer)[:2] == (503, "ServiceUnavailable")


async def test_a_server_that_the_ca_does_not_vouch_for_gets_nothing(
    settings: SidecarOptions, api: ScriptedApiServer, tmp_path: Path, certificates: Certificates
) -> None:
    other = certificates.write_client_ca(tmp_path)

    async with (
        run_sidecar(replace(settings, ca_file=other)) as sidecar,
        connected(sidecar.address, trusting(tmp_path / "hop.crt")) as application,
    ):
        answer = await application.request(headers=AUTHORIZED)

    assert answer.status == 503
    assert api.requests == []


async def test_a_request_under_way_is_finished_when_the_hop_is_told_to_end(
    sidecar: Sidecar, application: HttpClient, api: ScriptedApiServer
) -> None:
    finish = asyncio.Event()

    async def slowly(connection: ScriptedConnection, request: SeenRequest) -> None:
        await finish.wait()
        await connection.respond(b"done")

    api.script = slowly
    await application.send(request_bytes(headers=AUTHORIZED))
    await eventually(lambda: api.requests)

    async with asyncio.TaskGroup() as group:
        draining = group.create_task(sidecar.drain.run())
        finish.set()
        answer = await application.read_response()

    assert draining.done()
    assert (answer.status, answer.body) == (200, b"done")
    assert answer.values("connection") == ["close"]


async def test_a_broken_answer_is_seen_as_broken(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    async def break_off(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await connection.cut()

    api.script = break_off
    await application.send(request_bytes(headers=AUTHORIZED))

    with pytest.raises(Cut):
        await application.read_response()


async def test_an_application_goes_on_after_a_restart_if_the_certificate_is_kept(
    settings: SidecarOptions, tmp_path: Path
) -> None:
    kept = replace(settings, certificate_dir=tmp_path)
    async with run_sidecar(kept):
        trusted = await asyncio.to_thread(trusting, tmp_path / "hop.crt")

    async with run_sidecar(kept) as again, connected(again.address, trusted) as application:
        answer = await application.request(headers=AUTHORIZED)

    assert answer.status == 200


async def test_without_that_the_old_ca_is_of_no_use(
    settings: SidecarOptions, tmp_path: Path
) -> None:
    async with run_sidecar(settings):
        trusted = await asyncio.to_thread(trusting, tmp_path / "hop.crt")

    async with run_sidecar(settings) as again:
        with pytest.raises(ssl.SSLCertVerificationError):
            async with connected(again.address, trusted):
                pass


async def test_two_hops_do_not_share_an_address(settings: SidecarOptions, sidecar: Sidecar) -> None:
    with pytest.raises(ListenError, match="address already in use"):
        async with run_sidecar(replace(settings, address=sidecar.address)):
            pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert is_loopback(host) is expected
