"""An equal request on the same connection goes a shorter way, and nobody can tell.

Whether it is decided anew is not a matter of the way: who is calling and whether the caller may are
asked each time, and what has changed meanwhile is seen by the very next request.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import Headers, HttpClient, connected
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

TTL = "300ms"
TTL_SECONDS = 0.3
TOKEN: Headers = [("Authorization", "Bearer good")]
AS_BOB: Headers = [("Impersonate-User", "bob")]
_VARYING = re.compile(r"[0-9a-f]{8}-[-0-9a-f]{27}|\d{4}-\d\d-\d\dT[^\"]*Z")


@contextmanager
def walks() -> Iterator[list[str]]:
    """Note which of the two ways requests go meanwhile."""
    taken: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "return" or "/pipeline/" not in code.co_filename:
            return
        if code.co_name == "reusable_results" and argument is not None:
            taken.append("short")
        elif code.co_name == "_evaluate" and (argument is None or isinstance(argument, tuple)):
            taken.append("whole")

    sys.setprofile(note)
    try:
        yield taken
    finally:
        sys.setprofile(None)


Section = dict[str, Any]


class Stage:
    """Where proxies run whose memory is short, with other settings if there are any."""

    def __init__(self, api: ScriptedApiServer, certificates: Certificates, files: Path) -> None:
        self._api, self._certificates, self._files = api, certificates, files

    def settings(self, **sections: Section) -> Settings:
        document = settings_document(self._api, self._certificates, self._files)
        document["authentication"]["tokenReview"] = {"successTTL": TTL}
        document["impersonation"] = {"successTTL": TTL}
        for name, section in sections.items():
            document[name] = {**document.get(name, {}), **section}
        return Settings.model_validate(document)

    @asynccontextmanager
    async def proxy(self, **sections: Section) -> AsyncIterator[Proxy]:
        async with run_proxy(self.settings(**sections)) as proxy:
            await wait_until_it_admits(proxy.address, self._certificates.client_context("early"))
            self._api.requests.clear()
            yield proxy

    @asynccontextmanager
    async def client(self, proxy: Proxy, user: str | None = None) -> AsyncIterator[HttpClient]:
        context = self._certificates.client_context(user)
        async with connected(proxy.address, context) as client:
            yield client


@pytest.fixture
def stage(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Stage:
    api.tokens["good"] = "alice"
    return Stage(api, certificates, tmp_path)


def masked(text: str) -> str:
    return _VARYING.sub("-", text)


POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: {level}
"""


@pytest.mark.parametrize("level", ["None", "Metadata", "Request", "RequestResponse"])
@pytest.mark.parametrize("wanted", [[], AS_BOB], ids=["itself", "as-bob"])
@pytest.mark.parametrize("user", ["carol", None], ids=["certificate", "token"])
async def test_it_is_carried_out_and_told_like_the_first(
    api: ScriptedApiServer,
    tmp_path: Path,
    stage: Stage,
    user: str | None,
    wanted: Headers,
    level: str,
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.format(level=level))
    log = tmp_path / "audit.log"
    audit = {"policyFile": str(tmp_path / "policy.yaml"), "log": {"path": str(log)}}
    headers = [*([] if user else TOKEN), *wanted]
    async with stage.proxy(audit=audit) as proxy, stage.client(proxy, user) as client:
        with walks() as taken:
            answers = [await client.request(headers=headers) for _ in range(3)]

    assert taken[-1] == "short"
    assert taken[0] == "whole"
    assert [answer.status for answer in answers] == [200] * 3
    assert len({str(answer.values("audit-id")) for answer in answers}) == 3
    assert len({masked(str(answer.headers)) + str(answer.body) for answer in answers}) == 1
    assert len({masked(f"{seen.target} {seen.headers}") for seen in api.requests}) == 1
    of_three = [line for line in log.read_text().splitlines() if '"early"' not in line]
    stages: dict[str, list[str]] = {}
    for line in of_three:
        event = json.loads(line)
        stages.setdefault(event["stage"], []).append(masked(json.dumps(without_reviews(event))))
    assert sorted(stages) == ([] if level == "None" else ["RequestReceived", "ResponseComplete"])
    for events in stages.values():
        assert len(events) == 3
        assert len(set(events)) == 1


def without_reviews(event: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is only true of the first: that the API server had to be asked."""
    kept = {
        name: value
        for name, value in event.get("annotations", {}).items()
        if not name.endswith(("/reviews", "/cache"))
    }
    return {**event, "annotations": kept}


async def warm(client: HttpClient, headers: Headers = [*TOKEN, *AS_BOB]) -> None:  # noqa: B006 - only read
    """Ask until the next equal request goes the short way."""
    for _ in range(3):
        assert (await client.request(headers=headers)).status == 200


async def test_a_token_that_is_withdrawn_is_refused_in_time(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        await warm(client)
        del api.tokens["good"]
        await asyncio.sleep(TTL_SECONDS)
        answer = await client.request(headers=[*TOKEN, *AS_BOB])

    assert answer.status == 401


async def test_a_right_that_is_withdrawn_is_refused_in_time(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async with stage.proxy() as proxy, stage.client(proxy, "carol") as client:
        await warm(client, AS_BOB)
        api.access_status = {"allowed": False}
        await asyncio.sleep(2 * TTL_SECONDS)
        answer = await client.request(headers=AS_BOB)

    assert answer.status == 403


async def test_who_a_token_belongs_to_by_now_is_asked_anew(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        await warm(client, TOKEN)
        api.tokens["good"] = "dora"
        await asyncio.sleep(TTL_SECONDS)
        await client.request(headers=TOKEN)

    assert [seen.user for seen in api.requests] == ["alice"] * 3 + ["dora"]


async def test_who_a_token_belongs_to_may_be_learned_by_another_connection(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async with stage.proxy() as proxy, stage.client(proxy) as client, stage.client(proxy) as other:
        await warm(client, TOKEN)
        api.tokens["good"] = "dora"
        await asyncio.sleep(TTL_SECONDS)
        await other.request(headers=TOKEN)
        await client.request(headers=TOKEN)

    assert [seen.user for seen in api.requests] == ["alice"] * 3 + ["dora", "dora"]


async def test_what_follows_an_answer_in_one_piece_is_no_part_of_it(
    api: ScriptedApiServer, stage: Stage
) -> None:
    """Neither of this answer nor of the next one, and the connection is not used again."""
    injected = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

    async def two_at_once(connection: ScriptedConnection, _: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + injected)

    api.script = two_at_once
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        answers = [await client.request(headers=TOKEN) for _ in range(3)]

    assert [answer.body for answer in answers] == [b"good"] * 3
    assert len(api.requests) == 3


async def test_new_rules_count_for_the_very_next_request(
    api: ScriptedApiServer, stage: Stage
) -> None:
    wanted: Headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "admins")]
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        await warm(client, [*TOKEN, *wanted])
        await proxy.reload(stage.settings(impersonation={"protectedGroups": ["admins"]}))
        with walks() as taken:
            answer = await client.request(headers=[*TOKEN, *wanted])

    assert answer.status == 403
    assert "short" not in taken


async def test_other_lines_are_another_request(api: ScriptedApiServer, stage: Stage) -> None:
    api.tokens["other"] = "dora"
    other: Headers = [("Authorization", "Bearer other")]
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        for headers in (TOKEN, other, TOKEN, TOKEN, other, other, TOKEN):
            assert (await client.request(headers=headers)).status == 200

    users = ["alice", "dora", "alice", "alice", "dora", "dora", "alice"]
    assert [seen.user for seen in api.requests] == users


async def test_connections_do_not_learn_from_each_other(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async with stage.proxy() as proxy:
        for user in ("carol", "dave"):
            async with stage.client(proxy, user) as client:
                await warm(client, [])

    assert [seen.user for seen in api.requests] == ["carol"] * 3 + ["dave"] * 3


async def test_the_places_in_flight_count_for_it(api: ScriptedApiServer, stage: Stage) -> None:
    going_on = asyncio.Event()

    async def slow(connection: ScriptedConnection, request: SeenRequest) -> None:
        if request.target == "/slow":
            await going_on.wait()
        await connection.respond()

    api.script = slow
    limits: Section = {"limits": {"readsInFlight": 1}}
    async with (
        stage.proxy(serving=limits) as proxy,
        stage.client(proxy) as client,
        stage.client(proxy, "carol") as blocker,
    ):
        await warm(client, TOKEN)
        blocking = asyncio.ensure_future(blocker.request(target="/slow"))
        while not any(seen.target == "/slow" for seen in api.requests):  # noqa: ASYNC110 - it tells
            await asyncio.sleep(0.01)
        refused = await client.request(headers=TOKEN)
        going_on.set()
        await blocking
        served = await client.request(headers=TOKEN)

    assert (refused.status, refused.values("retry-after")) == (429, ["1"])
    assert served.status == 200


async def test_without_an_idle_connection_one_is_opened_and_it_is_sent_once(
    api: ScriptedApiServer, stage: Stage
) -> None:
    async def closing(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(headers=("Connection: close",))
        connection.close()

    api.script = closing
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        with walks() as taken:
            await warm(client, TOKEN)

    assert taken == ["whole", "short", "short"]
    assert len(api.requests) == 3


async def test_a_clients_own_id_is_kept_each_time(api: ScriptedApiServer, stage: Stage) -> None:
    headers: Headers = [*TOKEN, ("Audit-ID", 'mine"')]
    async with stage.proxy() as proxy, stage.client(proxy) as client:
        await warm(client, headers)

    assert {str(seen.values("audit-id")) for seen in api.requests} == {str(['mine"'])}
