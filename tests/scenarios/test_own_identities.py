"""Who we are at the API server: two identities, and what we find out about them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

import aiohttp
import pytest

from proxy.app import Proxy, running_proxy
from proxy.core.errors import SetupError
from proxy.sandbox.ports import LOOPBACK, ReservedPort
from proxy.settings.model import Settings
from tests.scenarios.conftest import (
    Section,
    settings_document,
    status_of,
    wait_until_it_admits,
)
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected
from tests.support.own_calls import Document, is_needed
from tests.support.scripted_api_server import (
    OWN_NAME,
    OWN_TOKEN,
    REVIEWER_NAME,
    ScriptedApiServer,
    SeenRequest,
)

REVIEWER_TOKEN = "the-token-of-the-reviewer"
FORWARDER = {"serviceAccount": "understudy:proxy"}
Context = Callable[[str | None], SSLContext]


class Stage:
    """An API server and the files of a proxy before it."""

    def __init__(self, api: ScriptedApiServer, certificates: Certificates, directory: Path) -> None:
        self.api = api
        self._certificates = certificates
        self._directory = directory

    def kubeconfig(self, name: str, token: str) -> Path:
        directory = self._directory / name
        directory.mkdir()
        ca_file = self._certificates.write_server_ca(directory)
        file = self.api.write_kubeconfig(directory, ca_file)
        file.write_text(file.read_text().replace(OWN_TOKEN, token))
        return file

    def write_pod(self, directory: Path) -> None:
        """Write what a pod of the reviewer's account has in its files."""
        directory.mkdir()
        self._certificates.write_server_ca(directory)
        (directory / "token").write_text(REVIEWER_TOKEN)
        (directory / "namespace").write_text("understudy")

    def two_kubeconfigs(self) -> dict[str, object]:
        self.api.reviewer_tokens.add(REVIEWER_TOKEN)
        reviewer = self.kubeconfig("reviewer", REVIEWER_TOKEN)
        return {"reviewer": {"kubeconfig": str(reviewer)}}

    def requested_token(self) -> dict[str, object]:
        self.api.reviewer_tokens.add(REVIEWER_TOKEN)
        self.api.own_tokens.clear()
        reviewer = self.kubeconfig("pod", REVIEWER_TOKEN)
        return {"kubeconfig": str(reviewer), "forwarder": FORWARDER, "credentialRefresh": "50ms"}

    @asynccontextmanager
    async def running(self, upstream: Section) -> AsyncIterator[tuple[Proxy, str]]:
        """Run a proxy; yields it and the URL of its admin port."""
        document = settings_document(
            self.api, self._certificates, self._directory, upstream=upstream
        )
        with ReservedPort() as port:
            admin = f"{LOOPBACK}:{port.number}"
            settings = Settings.model_validate({**document, "admin": {"address": admin}})
            async with running_proxy(settings) as proxy:
                yield proxy, f"http://{admin}"


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def stage(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Stage:
    return Stage(api, certificates, tmp_path)


def events(caplog: pytest.LogCaptureFixture, message: str) -> list[Document]:
    return [
        vars(record)["understudy_fields"] for record in caplog.records if record.message == message
    ]


async def readiness(admin: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{admin}/readyz?verbose") as page:
        return page.status, await page.text()


def shown(requests: Sequence[SeenRequest]) -> set[str]:
    return {value for one in requests for value in one.values("authorization")}


async def ask(proxy: Proxy, context_of: Context) -> None:
    """Send a request that needs a review, and see it carried out."""
    await wait_until_it_admits(proxy.address, context_of("early"))
    async with connected(proxy.address, context_of("alice")) as client:
        answer = await client.request(headers=[("Impersonate-User", "bob")])
    assert (answer.status, json.loads(answer.body)["user"]) == (200, "bob")


async def test_two_kubeconfigs_are_two_identities(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """That a review comes from the reviewer alone, the API server itself holds us to."""
    api = stage.api
    async with stage.running(stage.two_kubeconfigs()) as (proxy, admin):
        await ask(proxy, context_of)
        async with connected(proxy.address, context_of("mallory")) as client:
            refused = [
                (await client.request(headers=[("Impersonate-User", name)])).status
                for name in (OWN_NAME, REVIEWER_NAME)
            ]
        await eventually(lambda: len(events(caplog, "own rights excessive")) == 2)
        status, page = await readiness(admin)

    assert refused == [403, 403]
    assert {one.values("authorization")[0] for one in api.requests} == {f"Bearer {OWN_TOKEN}"}
    assert (status, "[+]canary ok" in page) == (200, True)
    assert events(caplog, "one identity for everything") == []
    # Both may do what only one of them needs to.
    excessive = {one["identity"]: one["rights"] for one in events(caplog, "own rights excessive")}
    assert excessive["reviewer"] == [
        "impersonate users",
        "impersonate groups",
        "impersonate serviceaccounts",
    ]
    assert excessive["forwarder"] == [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ]


async def test_one_identity_for_everything_is_reported(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.running({}) as (proxy, _):
        await ask(proxy, context_of)
        await eventually(lambda: events(caplog, "own rights as they should be"))

    (told,) = events(caplog, "one identity for everything")
    assert told["user"] == OWN_NAME


async def test_rights_that_are_missing_or_dangerous_are_reported_and_counted(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def grants(asked: Document) -> bool:
        if asked["resource"] == "secrets":
            return True
        return is_needed(asked) and asked.get("subresource") is None and asked["resource"] != "uids"

    stage.api.own_calls.grants = grants
    stage.api.own_groups = ["system:masters"]
    async with stage.running({"originalUserExtra": True}) as (proxy, _):
        await eventually(lambda: events(caplog, "own rights excessive"))
        registry = proxy._tools.metrics.registry

        def count(finding: str) -> float | None:
            labels = {"identity": "shared", "finding": finding}
            return registry.get_sample_value("understudy_own_rights", labels)

        counts = (count("missing"), count("excessive"))

    (missing,), (excessive,) = (
        events(caplog, f"own rights {finding}") for finding in ("missing", "excessive")
    )
    extras = [
        *(f"authentication.kubernetes.io/{name}" for name in ("credential-id", "node-name")),
        *(f"authentication.kubernetes.io/{name}" for name in ("node-uid", "pod-name", "pod-uid")),
        *(f"original-user.kube-understudy.io/{name}" for name in ("name", "uid", "groups")),
    ]
    assert missing["rights"] == [
        "impersonate uids.authentication.k8s.io",
        *(f"impersonate userextras.authentication.k8s.io/{key}" for key in extras),
    ]
    assert excessive["rights"] == ["member of system:masters", "get secrets", "list secrets"]
    assert counts == (9, 3)


@pytest.mark.parametrize("answer", [{"allowed": True}, {}, {"allowed": "false"}, None], ids=str)
async def test_who_allows_everybody_everything_makes_us_not_ready(
    stage: Stage, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    stage.api.own_calls.canary_status = answer
    async with stage.running({}) as (_, admin):
        await eventually(lambda: stage.api.own_calls.canaries)
        await eventually(lambda: "canary" in caplog.text)
        status, page = await readiness(admin)

    assert status == 503
    if answer == {"allowed": True}:
        fault = "the API server allows a made-up user a made-up verb: its denials mean nothing"
        assert f"[-]canary failed: {fault}\n" in page
    else:
        assert "[-]canary failed: " in page
    (asked, *_) = stage.api.own_calls.canaries
    assert asked["user"].startswith("understudy-canary-")
    assert asked["resourceAttributes"]["verb"] == "impersonate-on:understudy-canary:get"


async def test_the_canary_is_asked_again_until_it_is_denied(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.upstream.self_knowledge._UNSETTLED_SECONDS", 0.05)
    stage.api.own_calls.canary_status = {"allowed": True}
    async with stage.running({}) as (_, admin):
        await eventually(lambda: len(stage.api.own_calls.canaries) > 2)
        assert (await readiness(admin))[0] == 503

        stage.api.own_calls.canary_status = {"allowed": False}
        async with asyncio.timeout(20):
            while (await readiness(admin))[0] != 200:  # noqa: ASYNC110 - only its answers tell
                await asyncio.sleep(0.01)

    names = [asked["user"] for asked in stage.api.own_calls.canaries]
    assert len(set(names)) == len(names)  # no cache can answer


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ({"major": "1", "minor": "21+"}, False),
        ({"major": "1", "minor": "9"}, False),
        ({"major": "1", "minor": "22"}, True),
        ({"major": "1", "minor": "37+"}, True),
        ({"major": "2", "minor": "0"}, True),
        ({}, False),
        ({"major": "new", "minor": ""}, False),
    ],
    ids=str,
)
async def test_a_uid_is_refused_where_it_would_be_lost(
    stage: Stage, context_of: Context, version: Document, *, taken: bool
) -> None:
    stage.api.own_calls.version = version
    as_bob = ("Impersonate-User", "bob")
    async with stage.running({}) as (proxy, _):
        await ask(proxy, context_of)
        stage.api.requests.clear()
        async with connected(proxy.address, context_of("alice")) as client:
            answer = await client.request(headers=[as_bob, ("Impersonate-Uid", "7")])
            without = await client.request(headers=[as_bob])

    assert without.status == 200
    if taken:
        assert answer.status == 200
        assert stage.api.requests[0].values("impersonate-uid") == ["7"]
    else:
        assert status_of(answer) == (403, "Forbidden", 403)
        assert "older than 1.22" in json.loads(answer.body)["message"]
        assert len(stage.api.requests) == 1


async def test_a_token_of_the_forwarder_is_asked_for_and_renewed(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """Tokens are good for five seconds here, so each is replaced after four."""
    api = stage.api
    api.own_calls.token_seconds = 5
    async with stage.running(stage.requested_token()) as (proxy, _):
        await ask(proxy, context_of)
        assert shown(api.requests) == {"Bearer issued-1"}
        async with connected(proxy.address, context_of("alice")) as client:
            statuses = []
            async with asyncio.timeout(20):
                while "Bearer issued-2" not in shown(api.requests[-1:]):
                    statuses.append((await client.request()).status)
        registry = proxy._tools.metrics.registry
        expiry = registry.get_sample_value(
            "understudy_own_credential_expiry_seconds", {"identity": "forwarder"}
        )

    assert set(statuses) == {200}
    assert api.refused == []
    assert expiry
    assert expiry > 0
    assert REVIEWER_TOKEN not in caplog.text
    assert "issued-1" not in caplog.text


@pytest.fixture
def pod(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a pod that runs as the reviewer."""
    api, pod = stage.api, tmp_path / "serviceaccount"
    api.reviewer_tokens.add(REVIEWER_TOKEN)
    api.own_tokens.clear()
    stage.write_pod(pod)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", api.address[0])
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.address[1]))
    library = "kubernetes_asyncio.config.incluster_config."
    monkeypatch.setattr(library + "SERVICE_TOKEN_FILENAME", str(pod / "token"))
    monkeypatch.setattr(library + "SERVICE_CERT_FILENAME", str(pod / "server-ca.crt"))

    return pod


@pytest.mark.parametrize(
    ("forwarder", "account"),
    [({}, "understudy-forwarder"), (FORWARDER, "proxy")],
    ids=["by default", "as told"],
)
async def test_a_pod_that_runs_as_the_reviewer_forwards_by_such_a_token(
    stage: Stage, context_of: Context, pod: Path, forwarder: Section, account: str
) -> None:
    api = stage.api
    async with stage.running({"kubeconfig": None, "forwarder": forwarder}) as (proxy, _):
        await ask(proxy, context_of)

    assert shown(api.requests) == {"Bearer issued-1"}
    assert shown(api.reviews) == {f"Bearer {REVIEWER_TOKEN}", "Bearer issued-1"}
    path = f"/api/v1/namespaces/understudy/serviceaccounts/{account}/token"
    assert api.own_calls.token_requests == [path]


async def test_a_pod_may_be_one_identity_for_everything(
    stage: Stage, context_of: Context, pod: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage.api.own_tokens.add(REVIEWER_TOKEN)
    shared = {"kubeconfig": None, "forwarder": {"sameAsReviewer": True}}
    async with stage.running(shared) as (proxy, _):
        await ask(proxy, context_of)

    assert shown(stage.api.requests) == {f"Bearer {REVIEWER_TOKEN}"}
    assert events(caplog, "one identity for everything")


async def test_a_pod_without_a_namespace_does_not_start(stage: Stage, pod: Path) -> None:
    (pod / "namespace").unlink()

    with pytest.raises(SetupError, match="cannot tell the pod's namespace"):
        async with stage.running({"kubeconfig": None}):
            pass


async def test_a_token_that_is_refused_is_replaced_at_once(
    stage: Stage, context_of: Context
) -> None:
    api = stage.api
    async with stage.running(stage.requested_token()) as (proxy, _):
        await ask(proxy, context_of)

        api.withdraw("issued-1")
        async with connected(proxy.address, context_of("alice")) as client:
            statuses = [(await client.request()).status]
            async with asyncio.timeout(20):
                while statuses[-1] != 200:
                    statuses.append((await client.request()).status)

    assert set(statuses) == {503, 200}
    assert shown(api.requests[-1:]) == {"Bearer issued-2"}


async def test_without_a_token_nobody_is_served_until_one_is_issued(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    api = stage.api
    api.own_calls.issues_tokens = False
    api.withdrawn.add("not-issued-yet")  # known as ours, accepted by nobody
    async with stage.running(stage.requested_token()) as (proxy, admin):
        async with connected(proxy.address, context_of("alice")) as client:
            refused = await client.request()
        status, _ = await readiness(admin)

        api.own_calls.issues_tokens = True
        await ask(proxy, context_of)

    assert status_of(refused) == (503, "ServiceUnavailable", 503)
    assert status == 503
    (told, *_) = events(caplog, "own token not issued")
    assert told["account"] == "understudy:proxy"
    assert shown(api.requests) == {"Bearer issued-1"}


async def test_before_1_28_our_own_tokens_are_reviewed_to_know_who_we_are(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    api = stage.api
    api.has_self_reviews = False
    api.tokens |= {OWN_TOKEN: OWN_NAME, REVIEWER_TOKEN: REVIEWER_NAME}
    async with stage.running(stage.two_kubeconfigs()) as (proxy, _):
        await ask(proxy, context_of)
        async with connected(proxy.address, context_of("mallory")) as client:
            refused = await client.request(headers=[("Impersonate-User", REVIEWER_NAME)])

    assert refused.status == 403
    names = {one["identity"]: one["user"] for one in events(caplog, "own identity")}
    assert names == {"reviewer": REVIEWER_NAME, "forwarder": OWN_NAME}
    assert OWN_TOKEN not in caplog.text
