"""A reload replaces everything in one step, whenever it comes, or nothing at all."""

import asyncio
import gc
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.core.errors import OperatorError
from proxy.runtime import retiring
from proxy.runtime.components import Components
from proxy.runtime.config_file_checks import InvalidConfigFiles
from proxy.runtime.proxy import Proxy, ReloadRejected, run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.loader import RestartRequired
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document, settings_for, wait_until_it_admits
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
    scripted_api_server,
)

AS_BOB = [("Impersonate-User", "bob")]
TOKEN = [("Authorization", "Bearer of-bob")]
WATCH = "/api/v1/pods?watch=1"


class Stage:
    """A running proxy, the document of its config file, and a client that stays."""

    def __init__(self, proxy: Proxy, document: dict[str, Any], client: HttpClient) -> None:
        self.proxy = proxy
        self.document = document
        self.client = client

    async def reload(self, *, discard_decisions: bool = True, **sections: dict[str, Any]) -> None:
        """Serve by these keys of these sections as well; they stay if that was possible."""
        document = self.document | {
            name: self.document.get(name, {}) | section for name, section in sections.items()
        }
        await self.proxy.reload(
            Settings.model_validate(document), discard_decisions=discard_decisions
        )
        self.document = document

    def sample(self, name: str, **labels: str) -> float | None:
        return self.proxy.registry.get_sample_value(name, labels)


@pytest.fixture
async def stage(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> AsyncIterator[Stage]:
    document = settings_document(api, certificates, tmp_path)
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        async with connected(proxy.address, context_of("alice")) as client:
            yield Stage(proxy, document, client)


@asynccontextmanager
async def another_server(
    certificates: Certificates, directory: Path
) -> AsyncIterator[tuple[ScriptedApiServer, str]]:
    """A second API server, and the kubeconfig that leads there."""
    other = directory / "other"
    other.mkdir()
    async with scripted_api_server(certificates) as server:
        kubeconfig = server.write_kubeconfig(other, certificates.write_server_ca(other))
        yield server, str(kubeconfig)
        assert server.violations == []


class Held:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.has_come = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        self.has_come.set()
        await self.go_on.wait()
        await echo(connection, request)


async def test_a_reload_before_we_know_who_we_are_is_not_undone_by_learning_it(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    protecting = settings_for(api, certificates, tmp_path)
    emptied = protecting.impersonation.model_copy(update={"protected_groups": ()})
    trusting = protecting.model_copy(update={"impersonation": emptied})
    headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")]
    api.review_gate.clear()

    async with run_proxy(protecting) as proxy:
        async with asyncio.timeout(5):
            while not api.under_review:  # noqa: ASYNC110 - only what it is asked tells
                await asyncio.sleep(0.01)
        await proxy.reload(trusting)
        api.review_gate.set()
        context = certificates.client_context("alice")
        await wait_until_it_admits(proxy.address, context)
        async with connected(proxy.address, context) as client:
            answer = await client.request(headers=headers)

    assert answer.status == 200


async def test_new_rules_decide_the_next_request_and_nothing_is_remembered_across_them(
    stage: Stage, api: ScriptedApiServer
) -> None:
    assert (await stage.client.request(headers=AS_BOB)).status == 200
    assert (await stage.client.request(headers=AS_BOB)).status == 200
    asked = len(api.reviewed_access)

    await stage.reload(impersonation={"successTTL": "1h"}, discard_decisions=False)
    assert (await stage.client.request(headers=AS_BOB)).status == 200
    assert len(api.reviewed_access) > asked, "the new rules were not asked about"
    await stage.reload(impersonation={"legacy": "deny"}, discard_decisions=False)
    api.access_status = {"allowed": False}

    assert (await stage.client.request(headers=AS_BOB)).status == 403


async def test_what_has_nothing_to_do_with_decisions_leaves_them_remembered_unless_told(
    stage: Stage, api: ScriptedApiServer
) -> None:
    api.tokens["of-bob"] = "bob"
    await stage.client.request(headers=AS_BOB)
    asked = len(api.reviewed_access)

    for change in ({"log": {"level": "debug"}}, {"serving": {"limits": {"readsInFlight": 9}}}):
        await stage.reload(discard_decisions=False, **change)
        assert (await stage.client.request(headers=AS_BOB)).status == 200
    assert len(api.reviewed_access) == asked

    await stage.reload(discard_decisions=True)
    assert (await stage.client.request(headers=AS_BOB)).status == 200
    assert len(api.reviewed_access) > asked


async def test_ways_to_log_in_change(
    stage: Stage,
    api: ScriptedApiServer,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    api.tokens["of-bob"] = "bob"
    async with connected(stage.proxy.address, context_of(None)) as nobody:
        assert (await nobody.request(headers=TOKEN)).status == 200
        await stage.reload(authentication={"tokenReview": {"enabled": False}})
        assert (await nobody.request(headers=TOKEN)).status == 401
        await stage.reload(authentication={"tokenReview": {"enabled": True}})
        assert (await nobody.request(headers=TOKEN)).status == 200

    assert api.reviewed_tokens == ["of-bob"] * 2, "an old memory was used"


async def test_limits_hold_from_the_next_request_on_and_count_who_was_there_before(
    stage: Stage,
    api: ScriptedApiServer,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    api.script = held = Held()
    await stage.client.send(request_bytes())
    await held.has_come.wait()

    await stage.reload(serving={"limits": {"readsInFlight": 1, "connections": 2}})
    async with connected(stage.proxy.address, context_of("alice")) as second:
        crowded = await second.request()
        with pytest.raises((OSError, ssl.SSLError, EOFError, asyncio.IncompleteReadError)):
            async with connected(stage.proxy.address, context_of("alice")):
                pass
        await stage.reload(serving={"limits": {"readsInFlight": 2, "connections": 3}})
        held.go_on.set()
        roomy = await second.request()
        async with connected(stage.proxy.address, context_of("alice")) as third:
            assert (await third.request()).status == 200

    assert (crowded.status, roomy.status) == (429, 200)
    assert (await stage.client.read_response()).status == 200


async def test_times_hold_for_clients_who_are_here_already(
    stage: Stage, context_of: Callable[[str | None], ssl.SSLContext]
) -> None:
    await stage.reload(serving={"limits": {"idleTimeout": "10ms"}})
    assert (await stage.client.request()).status == 200

    assert await stage.client.read_to_end() == b""
    async with connected(stage.proxy.address, context_of("alice")) as another:
        assert await another.read_to_end() == b""


async def test_a_connection_that_has_grown_old_still_ends_with_its_next_answer(
    stage: Stage,
) -> None:
    (connection,) = stage.proxy._listener.connections
    connection.retires_at = 0.0
    stage.proxy._listener.close_expired()

    await stage.reload(log={"level": "debug"})
    answer = await stage.client.request()

    assert (answer.status, answer.values("connection")) == (200, ["close"])


async def test_another_api_server_takes_the_next_request_and_the_old_one_ends_what_it_began(
    stage: Stage, api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    api.script = held = Held()
    async with AsyncExitStack() as stack:
        server, kubeconfig = await stack.enter_async_context(another_server(certificates, tmp_path))
        server.own_name = "another-name-of-ours"
        await stage.client.send(request_bytes(target=WATCH))
        await held.has_come.wait()

        await stage.reload(upstream={"kubeconfig": kubeconfig})
        async with connected(stage.proxy.address, certificates.client_context("alice")) as second:
            statuses = [(await second.request()).status for _ in range(3)]
            ourselves = await second.request(headers=[("Impersonate-User", server.own_name)])
        held.go_on.set()
        watched = await stage.client.read_response()

        assert statuses == [200] * 3
        assert ourselves.status == 403, "the guard must know our new name"
        assert (len(server.requests), [one.target for one in api.requests[-1:]]) == (3, [WATCH])
        assert json.loads(watched.body)["target"] == WATCH
        # Nothing is kept for later where nobody will be sent any more.
        await eventually(lambda: api.open_forwarding == 0)
        await stage.proxy.stop()


async def test_what_was_replaced_ends_when_nobody_can_need_it_but_never_an_exchange(
    stage: Stage,
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retiring, "_AUTHORIZATION_SECONDS", 0.0)
    await stage.reload(
        authentication={"tokenReview": {"timeout": "10ms"}},
        impersonation={"reviews": {"timeout": "10ms"}},
    )
    api.script = held = Held()
    async with another_server(certificates, tmp_path) as (_, kubeconfig):
        await stage.client.send(request_bytes(target=WATCH))
        await held.has_come.wait()
        assert len(api.connections) > 1, "our own calls have theirs"

        # The old settings say how long whoever is being decided may wait: these, and five seconds.
        await stage.reload(upstream={"kubeconfig": kubeconfig})
        await eventually(lambda: len(api.connections) == 1, seconds=20)
        retired = stage.proxy._retiring
        retired.close_unreachable()
        assert len(retired._upstreams) == 1
        held.go_on.set()
        watched = await stage.client.read_response()
        await eventually(lambda: not api.connections)
        retired.close_unreachable()

        assert watched.status == 200
        assert retired._upstreams == []
        await stage.proxy.stop()


async def test_an_api_server_that_does_not_know_us_changes_nothing(
    stage: Stage, api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    async with another_server(certificates, tmp_path) as (server, kubeconfig):
        server.withdraw("the-token-of-the-proxy")

        with pytest.raises(OperatorError, match=r"authentication to the API server at .* failed"):
            await stage.reload(
                upstream={"kubeconfig": kubeconfig, "reviewer": {"kubeconfig": kubeconfig}},
                impersonation={"legacy": "deny"},
            )

        api.access_status = {"allowed": True}
        assert (await stage.client.request(headers=AS_BOB)).status == 200
        assert server.requests == []
        expiry = "understudy_proxy_credential_expiry_seconds"
        assert stage.sample(expiry, identity="shared") == 0.0
        assert stage.sample(expiry, identity="reviewer") is None


async def test_a_decision_under_way_ends_with_the_rules_and_the_server_it_began_with(
    stage: Stage, api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    async with another_server(certificates, tmp_path) as (server, kubeconfig):
        api.review_gate.clear()
        await stage.client.send(request_bytes(headers=AS_BOB))
        await eventually(lambda: api.under_review)

        await stage.reload(upstream={"kubeconfig": kubeconfig}, impersonation={"legacy": "deny"})
        api.review_gate.set()
        answer = await stage.client.read_response()
        server.access_status = {"allowed": False}

        assert answer.status == 200
        assert (len(api.requests) > 0, server.requests) == (True, [])
        assert (await stage.client.request(headers=AS_BOB)).status == 403


def events(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return [(event["requestURI"], event["stage"]) for event in found]


async def test_audit_moves_to_another_file_and_no_event_is_lost_on_the_way(
    stage: Stage, api: ScriptedApiServer, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    await stage.reload(audit={"log": {"path": str(first)}})
    await stage.client.request(target="/one")
    api.script = held = Held()
    await stage.client.send(request_bytes(target="/two"))
    await held.has_come.wait()

    # Three times, so that what is under way belongs to a generation before the last.
    await stage.reload(log={"level": "debug"})
    await stage.reload(audit={"log": {"path": str(tmp_path / "between.log")}})
    await stage.reload(audit={"log": {"path": str(second), "maxSize": 1}})
    held.go_on.set()
    await stage.client.read_response()
    await stage.reload(audit={"log": {"path": str(second), "maxSize": 1, "mode": "batch"}})
    for _ in range(100):  # long enough for a writer that was wrongly ended to be gone
        await stage.client.request(target="/three")
    await stage.reload(audit={"log": {}})
    await stage.client.request(target="/four")
    await stage.proxy.stop()

    complete = "ResponseComplete"
    assert await asyncio.to_thread(events, first) == [("/one", complete)]
    assert await asyncio.to_thread(events, second) == [
        ("/two", complete),
        *[("/three", complete)] * 100,
    ]
    assert stage.sample("understudy_audit_events_stored_total", backend="log") == 102.0
    assert stage.sample("understudy_audit_events_queued", backend="log") is None


async def test_nothing_is_half_taken(stage: Stage, api: ScriptedApiServer, tmp_path: Path) -> None:
    audit = {"log": {"path": str(tmp_path / "nowhere" / "audit.log")}}
    policy = {"policyFile": str(tmp_path / "no-policy.yaml")}
    serving = {"keyFile": str(tmp_path / "no.key")}

    for sections in ({"audit": audit}, {"audit": policy}, {"serving": serving}):
        with pytest.raises(OperatorError):
            await stage.reload(
                impersonation={"legacy": "deny"},
                authentication={"tokenReview": {"enabled": False}},
                **sections,
            )

    api.tokens["of-bob"] = "bob"
    assert (await stage.client.request(headers=AS_BOB)).status == 200
    assert (await stage.client.request(headers=[*TOKEN, *AS_BOB])).status == 200
    assert "legacy" not in stage.document["impersonation"]


async def test_an_address_needs_a_restart_and_nothing_else_is_taken_meanwhile(
    stage: Stage, api: ScriptedApiServer
) -> None:
    with pytest.raises(RestartRequired) as refused:
        await stage.reload(
            serving={"address": "127.0.0.1:1"},
            admin={"address": "127.0.0.1:2"},
            impersonation={"legacy": "deny", "constrained": False},
        )

    assert refused.value.paths == ["serving.address", "admin.address"]
    assert (await stage.client.request(headers=AS_BOB)).status == 200


async def test_who_may_scrape_and_what_the_admin_port_shows_changes_while_it_is_open(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    document = settings_document(api, certificates, tmp_path)
    with ReservedPort() as port:
        admin = {"address": f"{LOOPBACK}:{port.number}"}
        files = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            certificate, key = new_certificates().write_server_files(tmp_path / name)
            files.append({"certificateFile": str(certificate), "keyFile": str(key)})
        document["admin"] = admin | files[0]
        async with run_proxy(Settings.model_validate(document)) as proxy:
            await wait_until_it_admits(proxy.address, context_of("early"))
            first = await shown_by(port.number)
            document["admin"] = admin | files[1] | {"metricsRequireAuthorization": True}
            await proxy.reload(Settings.model_validate(document))
            async with asyncio.timeout(10):
                while (second := await shown_by(port.number))[0] == first[0]:  # noqa: ASYNC110 - it tells
                    await asyncio.sleep(0.01)
            document["admin"] = admin | {"certificateFile": "nowhere", "keyFile": "nowhere"}
            with pytest.raises(InvalidConfigFiles):
                await proxy.reload(Settings.model_validate(document))
            third = await shown_by(port.number)

    assert (first[1], second[1], third) == (200, 401, second)


async def shown_by(port: int) -> tuple[bytes, int]:
    """Return the certificate of the admin port, and how it answers a scraper without a token."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    status = int((await reader.readline()).split()[1])
    writer.close()
    return shown, status


async def test_whoever_shuts_down_takes_nothing_new(stage: Stage) -> None:
    stage.proxy.drain.skip_grace_period()
    await stage.proxy.drain.run()

    with pytest.raises(ReloadRejected):
        await stage.reload(impersonation={"legacy": "deny"})


async def test_names_of_metrics_come_and_go(stage: Stage) -> None:
    name = "apiserver_impersonation_duration_seconds_count"

    for wanted in (True, False, True):
        await stage.reload(admin={"kepMetricNames": wanted})
        await stage.client.request(headers=AS_BOB)
        assert (stage.sample(name, status="user-info") is not None) is wanted


async def test_requests_never_fail_while_everything_is_replaced_again_and_again(
    stage: Stage,
    certificates: Certificates,
    api: ScriptedApiServer,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    statuses: list[int] = []
    is_over = asyncio.Event()

    async def ask() -> None:
        async with connected(stage.proxy.address, context_of("alice")) as client:
            while not is_over.is_set():
                statuses.append((await client.request(headers=AS_BOB)).status)

    async with another_server(certificates, tmp_path) as (server, kubeconfig):
        ours = stage.document["upstream"]["kubeconfig"]
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ask())
            for turn in range(12):
                await stage.reload(
                    upstream={"kubeconfig": (kubeconfig, ours)[turn % 2]},
                    impersonation={"cacheEntries": 1000 + turn},
                    audit={"log": {"path": str(tmp_path / f"audit-{turn % 3}.log")}},
                    serving={"limits": {"readsInFlight": 100 + turn}},
                )
            is_over.set()
        await stage.proxy.stop()

    assert len(statuses) > 12
    assert set(statuses) == {200}
    logged = [event for turn in range(3) for event in events(tmp_path / f"audit-{turn}.log")]
    # The first requests may have come before the first file.
    assert len(api.requests) + len(server.requests) >= len(logged) > 0
    assert stage.sample("understudy_audit_events_stored_total", backend="log") == len(logged)
    assert stage.sample("understudy_audit_events_lost_total", backend="log", reason="shutdown") in (
        None,
        0.0,
    )


async def test_nothing_piles_up(stage: Stage, tmp_path: Path) -> None:
    def generations() -> int:
        gc.collect()
        return sum(isinstance(one, Components) for one in gc.get_objects())

    def writers() -> int:
        return sum(thread.name == "audit-log" for thread in threading.enumerate())

    tasks = len(asyncio.all_tasks())
    for turn in range(20):
        await stage.reload(
            impersonation={"cacheEntries": 1000 + turn},
            authentication={"tokenReview": {"inFlight": 10 + turn}},
            audit={"log": {"path": str(tmp_path / f"audit-{turn % 2}.log")}},
        )
        assert (await stage.client.request(headers=AS_BOB)).status == 200

    await eventually(lambda: writers() == 1)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
    assert generations() == 1
