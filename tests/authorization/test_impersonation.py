import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from proxy.authorization.access_review import AccessReviewQueue
from proxy.authorization.decision_cache import DecisionCache, ImpersonationCaches, ModeCache
from proxy.authorization.impersonation import AuthorizerDependencies, ImpersonationAuthorizer
from proxy.authorization.pod_nodes import PodNodeResolver
from proxy.authorization.shadow import ShadowEvaluator
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import Forbidden, UpstreamUnavailable
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import IdentityRestrictions, Permit
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import Caller, UserInfo, make_extra
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics
from tests.support.clock import FakeClock
from tests.support.metric_values import metric_values

BOB = Caller(UserInfo("bob", groups=("system:authenticated",)))
ALICE = UserInfo("alice")
LIST_PODS = parse_request_info(b"GET", b"/api/v1/pods")
DECIDED = "apiserver_impersonation_attempts_total"
COMPLETED = "apiserver_impersonation_authorization_attempts_total"
LOOKUPS = "understudy_decision_cache_lookups_total"
UNUSED = "understudy_access_reviews_unused_total"
GET_SECRET = parse_request_info(b"GET", b"/api/v1/namespaces/default/secrets/s")


def verb_and_name(check: AccessCheck) -> str:
    return f"{check.verb} {check.resource}{check.path} {check.name}".strip()


class Grants(AccessReviewQueue):
    """An authorizer that allows by `verb resource name`, `verb resource` or `verb`."""

    def __init__(self, *grants: str) -> None:
        self.grants = set(grants)
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self._tasks = TaskSet(lambda error: None)

    def submit(self, check: AccessCheck) -> asyncio.Task[CheckResult]:
        self.asked.append(verb_and_name(check))
        return self._tasks.start(self._answer(check))

    async def _answer(self, check: AccessCheck) -> CheckResult:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        levels = verb_and_name(check).split(" ")
        allowed = any(" ".join(levels[:count]) in self.grants for count in (1, 2, 3))
        return CheckResult(allowed)


class House:
    """A gate with its surroundings."""

    def __init__(
        self,
        *grants: str,
        rules: ImpersonationRules | None = None,
        mode_memory: bool = True,
        pod_nodes: PodNodeResolver | None = None,
        shadow: ShadowEvaluator | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.authorizer = Grants(*grants)
        self.registry = CollectorRegistry()
        decisions = DecisionCache(
            ttl_seconds=10, legacy_ttl_seconds=10, entries=1000, clock=self.clock
        )
        self.caches = ImpersonationCaches(decisions, ModeCache(enabled=mode_memory))
        self.gate = ImpersonationAuthorizer(
            rules=rules or ImpersonationRules(),
            caches=self.caches,
            dependencies=AuthorizerDependencies(
                self.authorizer,
                ImpersonationMetrics(self.registry),
                self.clock,
                TaskSet(lambda error: None),
                pod_nodes,
                shadow,
            ),
        )
        self.gate.restrictions = IdentityRestrictions(frozenset({"understudy"}))

    async def admit(
        self,
        wanted_user: UserInfo | None = ALICE,
        request_info: RequestInfo = LIST_PODS,
        caller: Caller = BOB,
    ) -> Permit:
        return (await self.gate.authorize(caller, wanted_user, request_info)).permit

    def counted(self, name: str) -> dict[str, float]:
        return metric_values(self.registry, name)

    def asked(self) -> list[str]:
        asked, self.authorizer.asked = self.authorizer.asked, []
        return asked


USER_GRANTS = ("impersonate-on:user-info:list pods", "impersonate:user-info users alice")


async def test_a_caller_that_wants_nobody_acts_as_itself_and_nobody_is_asked() -> None:
    house = House()

    permit = await house.admit(None)

    assert permit.user == BOB.user
    assert house.asked() == []
    assert house.counted(DECIDED) == {}


async def test_nobody_is_admitted_before_we_know_who_we_are() -> None:
    house = House()
    house.gate.restrictions = None

    with pytest.raises(UpstreamUnavailable):
        await house.admit(None)


async def test_both_halves_of_the_permission_admit() -> None:
    house = House(*USER_GRANTS)

    permit = await house.admit()

    assert permit.user == UserInfo("alice", groups=("system:authenticated",))
    assert permit.constraint == "impersonate:user-info"
    assert house.asked() == [
        "impersonate-on:user-info:list pods",
        "impersonate:user-info users alice",
    ]
    assert house.counted(DECIDED) == {"user-info allowed": 1}


@pytest.mark.parametrize("grant", USER_GRANTS)
async def test_one_half_of_the_permission_is_not_enough(grant: str) -> None:
    house = House(grant)

    with pytest.raises(Forbidden):
        await house.admit()

    assert house.counted(DECIDED) == {" denied": 1}


async def test_a_success_is_remembered_and_answers_without_waiting() -> None:
    house = House(*USER_GRANTS)
    await house.admit()
    house.asked()

    coroutine = house.admit()
    with pytest.raises(StopIteration) as finished:
        coroutine.send(None)

    assert finished.value.value.user.name == "alice"
    assert house.asked() == []


async def test_another_action_asks_for_the_action_alone() -> None:
    house = House(*USER_GRANTS, "impersonate-on:user-info:get secrets")
    await house.admit()
    house.asked()

    await house.admit(request_info=GET_SECRET)

    assert house.asked() == ["impersonate-on:user-info:get secrets s"]


async def test_a_withdrawn_grant_is_refused_after_its_time() -> None:
    house = House(*USER_GRANTS)
    await house.admit()
    house.authorizer.grants.clear()
    await house.admit()

    house.clock.advance(10.1)

    with pytest.raises(Forbidden):
        await house.admit()


async def test_a_denial_is_never_remembered() -> None:
    house = House()
    with pytest.raises(Forbidden):
        await house.admit()

    house.authorizer.grants |= set(USER_GRANTS)

    assert (await house.admit()).user.name == "alice"


async def test_a_failure_to_ask_is_neither_a_no_nor_remembered() -> None:
    house = House(*USER_GRANTS)
    house.authorizer.failure = UpstreamUnavailable("down")
    with pytest.raises(UpstreamUnavailable):
        await house.admit()
    assert house.counted(DECIDED) == {}

    house.authorizer.failure = None

    assert (await house.admit()).user.name == "alice"


async def test_identity_checks_of_one_mode_are_asked_together_after_the_action() -> None:
    wanted_user = UserInfo("alice", uid="u", groups=("a", "b"))
    house = House("impersonate-on:user-info:list", "impersonate:user-info")
    waves: list[list[str]] = []

    task = asyncio.ensure_future(house.admit(wanted_user))
    while not task.done():
        await asyncio.sleep(0)
        if house.authorizer.asked:
            waves.append(house.asked())

    assert [len(wave) for wave in waves] == [1, 4]


async def test_what_is_asked_ahead_in_vain_is_counted_apart() -> None:
    wanted_user = UserInfo("alice", groups=("a", "b"))
    house = House("impersonate-on:user-info:list")

    with pytest.raises(Forbidden, match=r'^users\.authentication\.k8s\.io "alice" is forbidden'):
        await house.admit(wanted_user)

    completed = house.counted(COMPLETED)
    assert completed["user-info allowed"] == completed["user-info denied"] == 1
    assert house.counted(UNUSED) == {"": 4}  # two groups in user-info, two in legacy


async def test_a_failed_attempt_asks_for_no_more_than_what_is_under_way() -> None:
    many = UserInfo("alice", groups=tuple(f"g{number}" for number in range(500)))
    house = House("impersonate-on:user-info:list", "impersonate users", "impersonate groups")

    await house.admit(many)

    identity_checks = [one for one in house.asked() if one.startswith("impersonate:user-info")]
    assert identity_checks == [
        "impersonate:user-info users alice",
        "impersonate:user-info groups *",
    ]


async def test_the_mode_that_worked_is_tried_first_the_next_time() -> None:
    house = House("impersonate users")
    await house.admit()
    house.asked()

    await house.admit(request_info=GET_SECRET)

    assert house.asked() == ["impersonate users alice"]


async def test_without_mode_memory_every_decision_stands_alone() -> None:
    house = House("impersonate users", mode_memory=False)
    await house.admit()
    house.asked()

    await house.admit(request_info=GET_SECRET)

    assert house.asked()[0] == "impersonate-on:user-info:get secrets s"


async def test_legacy_is_remembered_only_when_configured() -> None:
    remembering = House("impersonate users", rules=ImpersonationRules(caches_legacy=True))
    forgetting = House("impersonate users")
    for house in (remembering, forgetting):
        await house.admit()
        house.asked()

        await house.admit()

    assert remembering.asked() == []
    assert forgetting.asked() == ["impersonate users alice"]


async def test_denied_legacy_asks_no_legacy_question_and_tells_the_constrained_error() -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
    house = House("impersonate users", rules=rules)

    with pytest.raises(Forbidden, match="impersonate-on:user-info:list"):
        await house.admit()

    assert house.asked() == ["impersonate-on:user-info:list pods"]


def agent(node: str, pod: str) -> Caller:
    extra = make_extra(
        {
            "authentication.kubernetes.io/node-name": [node],
            "authentication.kubernetes.io/pod-name": [pod],
        }
    )
    return Caller(UserInfo("system:serviceaccount:agents:agent", extra=extra))


NODE_GRANTS = ("impersonate-on:associated-node:list", "impersonate:associated-node nodes *")


async def test_the_pods_of_one_daemonset_share_a_decision_each_for_its_own_node() -> None:
    house = House(*NODE_GRANTS)
    await house.admit(UserInfo("system:node:n1"), caller=agent("n1", "p1"))
    house.asked()

    permit = await house.admit(UserInfo("system:node:n2"), caller=agent("n2", "p2"))

    assert house.asked() == []
    assert permit.user.name == "system:node:n2"
    assert permit.constraint == "impersonate:associated-node"


async def test_a_shared_decision_never_serves_another_node_than_the_callers() -> None:
    house = House(*NODE_GRANTS)
    await house.admit(UserInfo("system:node:n1"), caller=agent("n1", "p1"))

    with pytest.raises(Forbidden):
        await house.admit(UserInfo("system:node:n1"), caller=agent("n2", "p2"))


async def test_our_own_identity_is_refused_on_both_sides() -> None:
    house = House("impersonate")

    with pytest.raises(Forbidden, match="own identity"):
        await house.admit(UserInfo("understudy"))
    with pytest.raises(Forbidden, match="own identity"):
        await house.admit(None, caller=Caller(UserInfo("understudy")))
    assert house.asked() == []


async def test_a_protected_group_is_refused_to_everyone() -> None:
    masters = ("system:masters",)
    house = House("impersonate", "impersonate:user-info", "impersonate-on:user-info:list")

    with pytest.raises(Forbidden):
        await house.admit(replace(ALICE, groups=masters))
    with pytest.raises(Forbidden):
        await house.admit(None, caller=Caller(UserInfo("root", groups=masters)))


async def test_the_former_filter_counts_nothing_as_it_had_no_metrics() -> None:
    house = House("impersonate users", rules=ImpersonationRules(constrained=False))

    await house.admit()

    assert house.asked() == ["impersonate users alice"]
    assert house.counted(DECIDED) == {}
    assert house.counted(COMPLETED) == {}


async def test_equal_requests_at_once_are_decided_once_however_they_overlap() -> None:
    house = House(*USER_GRANTS)
    admissions: list[asyncio.Future[Permit]] = []
    for _ in range(20):
        admissions.append(asyncio.ensure_future(house.admit()))
        await asyncio.sleep(0)

    acting = {permit.user.name for permit in await asyncio.gather(*admissions)}

    assert acting == {"alice"}
    assert house.asked() == list(USER_GRANTS)


WIDE_GRANTS = ("impersonate:user-info", "impersonate-on:user-info:list")


class Witness:
    audit_id = b"a-1"

    def __init__(self) -> None:
        self.counts: list[int] = []

    def add_reviews(self, count: int) -> None:
        self.counts.append(count)


async def test_everybody_learns_how_many_answers_their_decision_took() -> None:
    house = House(*USER_GRANTS)
    asking, joining, recalling, denied = Witness(), Witness(), Witness(), Witness()

    async with asyncio.TaskGroup() as group:
        for witness in (asking, joining):
            group.create_task(house.gate.authorize(BOB, ALICE, LIST_PODS, observer=witness))
    await house.gate.authorize(BOB, ALICE, LIST_PODS, observer=recalling)
    with pytest.raises(Forbidden):
        await house.gate.authorize(BOB, UserInfo("carol"), LIST_PODS, observer=denied)

    assert asking.counts == joining.counts == [2]
    assert recalling.counts == []
    assert denied.counts == [3]


async def test_one_that_leaves_does_not_take_the_verdict_from_the_others() -> None:
    house = House(*USER_GRANTS)
    leaving = asyncio.ensure_future(house.admit())
    staying = asyncio.ensure_future(house.admit())
    await asyncio.sleep(0)

    leaving.cancel()

    assert (await staying).user.name == "alice"
    assert house.asked() == list(USER_GRANTS)


async def test_a_decision_made_again_and_again_is_withdrawn_in_time() -> None:
    house = House(*USER_GRANTS)
    for _ in range(3):
        await house.admit()
    house.asked()
    house.authorizer.grants.clear()

    house.clock.advance(10.1)
    with pytest.raises(Forbidden):
        await house.admit()

    assert house.asked()[0] == "impersonate-on:user-info:list pods"


async def test_a_decision_made_again_is_counted_again() -> None:
    house = House(*USER_GRANTS)

    for _ in range(4):
        await house.admit()

    assert house.counted(DECIDED) == {"user-info allowed": 4}
    assert house.counted(LOOKUPS)["request hit"] == 3
    assert len(house.asked()) == 2


async def test_a_decision_made_again_heeds_guards_that_came_since() -> None:
    house = House(*USER_GRANTS)
    for _ in range(3):
        await house.admit()

    house.gate.restrictions = IdentityRestrictions(
        frozenset({"understudy"}), frozenset({"system:authenticated"})
    )

    with pytest.raises(Forbidden):
        await house.admit()


async def test_a_decision_for_one_is_not_made_again_for_another() -> None:
    house = House(*USER_GRANTS, "impersonate-on:user-info:get secrets")
    eve = Caller(UserInfo("eve"))
    for _ in range(3):
        await house.admit()
    await house.admit(request_info=GET_SECRET, caller=eve)  # so that eve's mode is remembered, too
    house.authorizer.grants.clear()

    for wanted_user, request_info, caller in (
        (UserInfo("mallory"), LIST_PODS, BOB),
        (ALICE, GET_SECRET, BOB),
        (ALICE, LIST_PODS, eve),
    ):
        with pytest.raises(Forbidden):
            await house.admit(wanted_user, request_info, caller)


async def allowed_again(house: House) -> Callable[[], bool]:
    """Return the check of a request for alice that a request before has prepared."""
    result = await house.gate.authorize(BOB, ALICE, LIST_PODS)
    assert result.recheck is not None
    return result.recheck


async def test_equal_request_is_permitted_while_nothing_has_changed() -> None:
    house = House(*USER_GRANTS)

    recheck = await allowed_again(house)

    assert [recheck(), recheck()] == [True, True]
    assert house.counted(DECIDED) == {"user-info allowed": 3}
    assert house.counted(LOOKUPS)["request hit"] == 2


async def test_equal_request_is_decided_anew_if_another_mode_is_tried_first() -> None:
    house = House(*USER_GRANTS)
    recheck = await allowed_again(house)

    house.caches.modes.put(BOB.user.name, ImpersonationMode.LEGACY)
    assert not recheck()

    house.caches.modes.put(BOB.user.name, ImpersonationMode.USER_INFO)
    assert recheck()


async def test_equal_request_is_decided_anew_under_new_restrictions() -> None:
    house = House(*USER_GRANTS)
    recheck = await allowed_again(house)

    house.gate.restrictions = IdentityRestrictions(frozenset({"understudy"}))
    assert not recheck()

    house.gate.restrictions = None
    assert not recheck()


async def test_equal_request_is_decided_anew_when_the_cached_decision_expires() -> None:
    house = House(*USER_GRANTS)
    recheck = await allowed_again(house)

    house.clock.advance(10.1)

    assert not recheck()
    assert house.counted(DECIDED) == {"user-info allowed": 1}


async def test_equal_result_is_the_same_value_while_nothing_has_changed() -> None:
    house = House(*USER_GRANTS)
    await allowed_again(house)

    results = [await house.gate.authorize(BOB, ALICE, LIST_PODS) for _ in range(2)]

    assert results[0] is results[1]


async def test_caller_without_impersonation_is_permitted_under_the_same_restrictions_only() -> None:
    house = House()
    first = await house.gate.authorize(BOB, None, LIST_PODS)
    assert first.recheck is not None
    assert first.recheck()
    assert await house.gate.authorize(BOB, None, GET_SECRET) is first

    house.gate.restrictions = IdentityRestrictions(frozenset({"bob"}))

    assert not first.recheck()
    with pytest.raises(Forbidden):
        await house.gate.authorize(BOB, None, LIST_PODS)


@pytest.mark.parametrize("wanted_user", [None, ALICE])
async def test_upgrade_is_authorized_each_time(wanted_user: UserInfo | None) -> None:
    house = House(*USER_GRANTS)

    for _ in range(3):
        result = await house.gate.authorize(BOB, wanted_user, LIST_PODS, is_upgrade=True)
        assert result.recheck is None


async def test_upgrade_is_not_permitted_by_the_result_of_another_request() -> None:
    house = House(*USER_GRANTS, rules=ImpersonationRules(upgrade_needs_create=True))
    exec_in_pod = parse_request_info(b"GET", b"/api/v1/namespaces/n/pods/p/exec")
    house.authorizer.grants.add("impersonate-on:user-info:get pods p")
    for _ in range(3):
        await house.admit(request_info=exec_in_pod)

    with pytest.raises(Forbidden, match="impersonate-on:user-info:create"):
        await house.gate.authorize(BOB, ALICE, exec_in_pod, is_upgrade=True)


@pytest.mark.parametrize(
    ("grants", "target"),
    [
        (("impersonate users",), b"/api/v1/pods"),
        (WIDE_GRANTS, b"/api/v1/pods?labelSelector=(("),
        (WIDE_GRANTS, b"/api/v1/" + b"a" * 300),
    ],
    ids=["legacy", "unparsed selector", "long path"],
)
async def test_result_that_is_not_cacheable_is_authorized_each_time(
    grants: tuple[str, ...], target: bytes
) -> None:
    house = House(*grants)
    request_info = parse_request_info(b"GET", target)

    for _ in range(3):
        assert (await house.gate.authorize(BOB, ALICE, request_info)).recheck is None


@pytest.mark.parametrize(
    ("is_on", "request_info", "is_warned"),
    [
        (True, RequestInfo("get", "/api"), True),
        (True, LIST_PODS, False),
        (False, RequestInfo("get", "/api"), False),
    ],
)
async def test_only_a_denied_path_has_a_warning_and_only_if_configured(
    request_info: RequestInfo, *, is_on: bool, is_warned: bool
) -> None:
    house = House(rules=ImpersonationRules(warns_on_discovery=is_on))

    with pytest.raises(Forbidden) as denied:
        await house.admit(request_info=request_info)

    assert denied.value.warning == (denied.value.message if is_warned else "")


async def test_equal_selector_is_permitted_again_and_no_other() -> None:
    house = House(*WIDE_GRANTS)
    selecting, other = (
        parse_request_info(b"GET", b"/api/v1/pods?labelSelector=app%3D" + app)
        for app in (b"web", b"db")
    )
    result = await house.gate.authorize(BOB, ALICE, selecting)
    assert result.recheck is not None
    assert result.recheck()
    house.authorizer.grants.clear()

    assert await house.gate.authorize(BOB, ALICE, selecting) is result
    for request_info in (other, LIST_PODS):
        with pytest.raises(Forbidden):
            await house.gate.authorize(BOB, ALICE, request_info)


SERVICE_ACCOUNT = UserInfo("system:serviceaccount:n:robot")
BOTH_MODES = (
    *WIDE_GRANTS,
    "impersonate:serviceaccount",
    "impersonate-on:serviceaccount:list",
)


async def test_mode_that_does_not_apply_to_the_user_changes_no_decision() -> None:
    """The last mode of the caller is one in which no user can be impersonated."""
    house = House(*BOTH_MODES)
    recheck = await allowed_again(house)
    await house.admit(SERVICE_ACCOUNT)
    assert house.caches.modes.get("bob") is ImpersonationMode.SERVICE_ACCOUNT

    assert recheck()

    assert house.caches.modes.get("bob") is ImpersonationMode.USER_INFO


async def test_denied_recheck_leaves_the_last_mode_of_the_caller() -> None:
    house = House(*BOTH_MODES)
    recheck = await allowed_again(house)
    await house.admit(SERVICE_ACCOUNT)

    house.clock.advance(10.1)
    assert not recheck()

    assert house.caches.modes.get("bob") is ImpersonationMode.SERVICE_ACCOUNT


@pytest.mark.parametrize(
    ("grants", "is_confirmed"),
    [
        (NODE_GRANTS, True),
        (("impersonate-on:arbitrary-node:list", "impersonate:arbitrary-node"), False),
    ],
    ids=["first mode", "second mode"],
)
async def test_without_mode_cache_only_the_first_mode_is_permitted_again(
    grants: tuple[str, ...], *, is_confirmed: bool
) -> None:
    """The checks of a mode that comes before the allowed one were denied, which is not cached."""
    house = House(*grants, mode_memory=False)
    node, caller = UserInfo("system:node:n1"), agent("n1", "p1")

    result = await house.gate.authorize(caller, node, LIST_PODS)

    assert result.recheck is not None
    assert result.recheck() == is_confirmed
