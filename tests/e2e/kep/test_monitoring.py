"""Monitoring and scalability: what is counted, and how many checks a decision costs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.scenes import Scene
from tests.e2e.kep.understudy import Series, Understudy, read_counts, running_understudy
from tests.support.impersonation import (
    Caller,
    Doors,
    Header,
    Rights,
    Rule,
    as_node,
    as_user,
    is_refused_impersonation,
    is_success,
    may,
    may_be,
    may_do,
    may_impersonate,
    poll,
)

PODS = "/api/v1/pods"
ATTEMPTS = "apiserver_impersonation_attempts"
CHECKS = "apiserver_impersonation_authorization_attempts"

Growth = Callable[[], Counter[Series]]


@pytest.fixture
def growth(understudy: Understudy, native_api_server: ApiServer) -> Growth:
    """Tell what was counted since the test began: by us, and the same by the native server."""

    def native_counts() -> Counter[Series]:
        return read_counts(native_api_server.admin.request("GET", "/metrics").body.decode())

    ours, native = understudy.counts(), native_counts()

    def since() -> Counter[Series]:
        grown = understudy.counts() - ours
        assert grown == native_counts() - native
        return grown

    return since


def counted(name: str, *series: tuple[str, str, int]) -> Counter[Series]:
    """Return a counter's growth by mode and decision; its histogram counts alike."""
    return Counter(
        {
            (full_name, mode, decision): count
            for mode, decision, count in series
            for full_name in (f"{name}_total", f"{name}_duration_seconds_count")
        }
    )


def test_a_success_is_counted_for_its_mode(
    scene: Scene, doors: Doors, rights: Rights, growth: Growth
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    doors.ask(scene.caller, "GET", scene.path, scene.headers)

    attempts = counted(ATTEMPTS, (scene.mode, "allowed", 1))
    assert growth() == attempts + counted(CHECKS, (scene.mode, "allowed", 2))


def test_a_failure_is_counted_for_no_mode(cast: Cast, doors: Doors, growth: Growth) -> None:
    doors.ask(cast.user(), "GET", PODS, as_user("bob"))

    attempts = counted(ATTEMPTS, ("", "denied", 1))
    checks = counted(CHECKS, ("user-info", "denied", 1), ("legacy", "denied", 1))
    assert growth() == attempts + checks


def test_what_is_no_impersonation_is_not_counted(cast: Cast, doors: Doors, growth: Growth) -> None:
    caller = cast.user()

    doors.ask(caller, "GET", PODS)
    doors.ask(caller, "GET", PODS, [("Impersonate-Group", "dev")])

    assert growth() == Counter()


def test_a_success_is_remembered_so_that_the_next_one_costs_no_check(
    scene: Scene, doors: Doors, rights: Rights, growth: Growth
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    for _ in range(3):
        assert is_success(doors.ask(scene.caller, "GET", scene.path, scene.headers))

    attempts = counted(ATTEMPTS, (scene.mode, "allowed", 3))
    assert growth() == attempts + counted(CHECKS, (scene.mode, "allowed", 2))


def test_all_pods_of_an_agent_share_what_is_remembered(
    cast: Cast, doors: Doors, rights: Rights, growth: Growth
) -> None:
    mode, nodes = "associated-node", [cast.node() for _ in range(3)]
    first = cast.service_account(node=nodes[0])
    account = (first.subject["namespace"], first.subject["name"])
    agents = [first, *(cast.account_on(*account, node=node) for node in nodes[1:])]
    rights.grant(first, may_be(mode, "nodes"), may_do(mode, "list"))

    for agent, node in zip(agents, nodes, strict=True):
        assert not is_refused_impersonation(doors.ask(agent, "GET", PODS, as_node(node)))

    attempts = counted(ATTEMPTS, (mode, "allowed", 3))
    assert growth() == attempts + counted(CHECKS, (mode, "allowed", 2))


def test_legacy_is_remembered_as_the_mode_to_try_first_but_asked_each_time(
    cast: Cast, doors: Doors, rights: Rights, growth: Growth
) -> None:
    caller = cast.user("former")
    rights.grant(caller, may_impersonate("users"))

    for _ in range(3):
        doors.ask(caller, "GET", PODS, as_user("bob"))

    attempts = counted(ATTEMPTS, ("legacy", "allowed", 3))
    checks = counted(CHECKS, ("user-info", "denied", 1), ("legacy", "allowed", 3))
    assert growth() == attempts + checks


GROUPS = as_user("bob", groups=[f"group-{number}" for number in range(10)])
BE_BOB, LIST_PODS = may_be("user-info", "users", "bob"), may_do("user-info", "list")


EACH_GROUP = may_be("user-info", "groups", *(value for _, value in GROUPS))


@dataclass(frozen=True, slots=True)
class Cost:
    """How many checks it costs to ask for an identity with some rights."""

    checks: int
    rules: Sequence[Rule]
    headers: list[Header] = field(default_factory=lambda: as_user("bob"))


COSTS = {
    "allowed": Cost(2, [BE_BOB, LIST_PODS]),
    "identity denied, legacy allowed": Cost(3, [LIST_PODS, may_impersonate("users")]),
    "action denied, legacy allowed": Cost(2, [may_impersonate("users")]),
    "identity denied": Cost(3, [LIST_PODS]),
    "action denied": Cost(2, []),
    "ten groups by a star": Cost(3, [BE_BOB, LIST_PODS, may_be("user-info", "groups")], GROUPS),
    "ten groups one by one": Cost(13, [BE_BOB, LIST_PODS, EACH_GROUP], GROUPS),
    "ten groups by legacy": Cost(12, [may_impersonate("users"), may_impersonate("groups")], GROUPS),
    "a node with a group": Cost(
        2, [may_impersonate("users")], as_user("system:node:n", groups=["g"])
    ),
}


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS.keys())
def test_how_many_checks_a_decision_costs(
    cost: Cost, cast: Cast, doors: Doors, rights: Rights, growth: Growth
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, *cost.rules)

    doors.ask(caller, "GET", PODS, cost.headers)

    asked = [count for (name, *_), count in growth().items() if name == f"{CHECKS}_total"]
    assert sum(asked) == cost.checks


@pytest.fixture(scope="module")
def hasty(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    """A proxy that remembers for a second only, and has the KEP's metric names."""
    with running_understudy(
        control_plane,
        plain_api_server,
        tmp_path_factory.mktemp("hasty"),
        impersonation={"successTTL": "1s"},
        kep_metric_names=True,
    ) as running:
        yield running


def list_as(understudy: Understudy, caller: Caller, target: Caller) -> int:
    client = understudy.client(caller.credential)
    return client.request("GET", PODS, headers=as_user(target.name)).status


def test_a_withdrawn_permission_stops_working_soon(
    hasty: Understudy, cast: Cast, rights: Rights
) -> None:
    caller, bob = cast.user("impersonator"), cast.user("bob")
    action = may_do("user-info", "list")
    rights.grant(bob, may("list"))
    rights.grant(caller, may_be("user-info", "users", bob.name))
    grant = rights.grant(caller, action)
    assert list_as(hasty, caller, bob) == 200

    rights.withdraw(grant, caller, action)

    poll(lambda: list_as(hasty, caller, bob) == 403, "the permission works on")


def test_the_keps_metric_names_can_be_had_as_well(
    hasty: Understudy, understudy: Understudy, cast: Cast
) -> None:
    list_as(hasty, cast.user(), cast.user())

    failed = 'apiserver_impersonation_duration_seconds_count{status="failed"}'
    checks = "apiserver_impersonation_authorization_duration_seconds_count"
    assert failed in hasty.metrics()
    assert checks in hasty.metrics()
    assert checks not in understudy.metrics()
