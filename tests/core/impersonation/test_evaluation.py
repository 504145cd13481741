import pytest

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    CacheScope,
    Denied,
    Evaluation,
    evaluate,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)
from tests.core.play import NO, granting, play, run, short

BOB = Caller(UserInfo("bob"))
AGENT = Caller(
    UserInfo("system:serviceaccount:ns:agent", extra=make_extra({NODE_NAME_KEY: ["n1"]}))
)
ALICE = UserInfo("alice")
NODE = UserInfo("system:node:n1")
RULES = ImpersonationRules()

ON_LIST = "impersonate-on:user-info:list pods /"
USER = "impersonate:user-info users.authentication.k8s.io /alice"
LEGACY_USER = "impersonate users /alice"


def evaluation(
    wanted_user: UserInfo,
    *,
    caller: Caller = BOB,
    rules: ImpersonationRules = RULES,
    remembered: ImpersonationMode | None = None,
    target: bytes = b"/api/v1/pods",
) -> Evaluation:
    request_info = parse_request_info(b"GET", target)
    return evaluate(
        plan_attempts(caller, wanted_user, request_info, rules=rules, preferred_mode=remembered)
    )


def group(name: str) -> str:
    return f"impersonate:user-info groups.authentication.k8s.io /{name}"


def with_groups(count: int) -> UserInfo:
    return UserInfo("alice", groups=tuple(f"g{number}" for number in range(count)))


def test_permission_for_the_action_and_the_user_is_enough() -> None:
    decision, asked = play(evaluation(ALICE), allow=granting(ON_LIST, USER))

    assert isinstance(decision, Allowed)
    assert decision.mode is ImpersonationMode.USER_INFO
    assert decision.impersonated_user == UserInfo("alice", groups=("system:authenticated",))
    assert decision.cacheable == (CacheScope.IDENTITY, CacheScope.REQUEST)
    assert asked == [ON_LIST, USER]


def test_permission_for_the_user_alone_is_not_enough() -> None:
    decision, asked = play(evaluation(ALICE), allow=granting(USER))

    assert asked == [ON_LIST, LEGACY_USER]
    assert isinstance(decision, Denied)
    assert decision.first_failure is not None
    assert short(decision.first_failure) == ON_LIST


def test_permission_for_the_action_alone_is_not_enough() -> None:
    decision, asked = play(evaluation(ALICE), allow=granting(ON_LIST))

    assert asked == [ON_LIST, USER, LEGACY_USER]
    assert isinstance(decision, Denied)
    assert decision.first_failure is not None
    assert short(decision.first_failure) == USER


def test_legacy_permission_still_works_and_leaves_nothing_to_remember() -> None:
    decision, asked = play(evaluation(ALICE), allow=granting(LEGACY_USER))

    assert isinstance(decision, Allowed)
    assert (decision.mode, decision.cacheable) == (ImpersonationMode.LEGACY, ())
    assert asked == [ON_LIST, LEGACY_USER]


def test_a_remembered_legacy_caller_costs_no_other_check_and_hears_its_own_error() -> None:
    allowed, asked = play(
        evaluation(ALICE, remembered=ImpersonationMode.LEGACY), allow=granting(LEGACY_USER)
    )
    denied, asked_in_vain = play(
        evaluation(ALICE, remembered=ImpersonationMode.LEGACY), allow=granting()
    )

    assert isinstance(allowed, Allowed)
    assert asked == [LEGACY_USER]
    assert isinstance(denied, Denied)
    assert denied.first_failure is not None
    assert short(denied.first_failure) == LEGACY_USER
    assert asked_in_vain == [LEGACY_USER, ON_LIST]


ASSOCIATED = [
    "impersonate-on:associated-node:list pods /",
    "impersonate:associated-node nodes.authentication.k8s.io /*",
]
ARBITRARY = [
    "impersonate-on:arbitrary-node:list pods /",
    "impersonate:arbitrary-node nodes.authentication.k8s.io /n1",
]
LEGACY_NODE = "impersonate users /system:node:n1"


@pytest.mark.parametrize(
    ("grants", "asked", "mode"),
    [
        (ASSOCIATED, ASSOCIATED, ImpersonationMode.ASSOCIATED_NODE),
        (ARBITRARY, [ASSOCIATED[0], *ARBITRARY], ImpersonationMode.ARBITRARY_NODE),
        ([LEGACY_NODE], [ASSOCIATED[0], ARBITRARY[0], LEGACY_NODE], ImpersonationMode.LEGACY),
        (
            [ASSOCIATED[0], ARBITRARY[0], LEGACY_NODE],
            [*ASSOCIATED, *ARBITRARY, LEGACY_NODE],
            ImpersonationMode.LEGACY,
        ),
    ],
)
def test_an_agent_becomes_its_node_by_the_first_mode_that_allows_it(
    grants: list[str], asked: list[str], mode: ImpersonationMode
) -> None:
    decision, really_asked = play(evaluation(NODE, caller=AGENT), allow=granting(*grants))

    assert really_asked == asked
    assert isinstance(decision, Allowed)
    assert decision.mode is mode
    assert ("system:nodes" in decision.impersonated_user.groups) == (
        mode is not ImpersonationMode.LEGACY
    )


@pytest.mark.parametrize(
    ("count", "grants", "asked_count"),
    [
        (1, "star", 3), (10, "star", 3), (100, "star", 3),
        (1, "each", 3), (10, "each", 13), (100, "each", 103),
        (1, "legacy", 3), (10, "legacy", 12), (100, "legacy", 102),
    ],
)  # fmt: skip
def test_groups_cost_as_many_checks_as_natively(count: int, grants: str, asked_count: int) -> None:
    def allow(check: AccessCheck) -> bool:
        if grants == "legacy":
            return check.verb == "impersonate"
        return grants == "star" or check.name != "*"

    decision, asked = play(evaluation(with_groups(count)), allow=allow)

    assert isinstance(decision, Allowed)
    assert len(asked) == asked_count


def test_a_denied_star_is_no_error_and_a_denied_item_is() -> None:
    def allow(check: AccessCheck) -> bool:
        return check.name not in {"*", "g2"} and check.verb != "impersonate"

    decision, asked = play(evaluation(with_groups(5)), allow=allow)

    assert asked[2:6] == [group("*"), group("g0"), group("g1"), group("g2")]
    assert asked[6:] == [LEGACY_USER]
    assert isinstance(decision, Denied)
    assert decision.first_failure is not None
    assert decision.first_failure.name == "g2"


def test_masters_are_refused_without_asking_and_told_as_a_denial() -> None:
    wanted_user = UserInfo("alice", groups=("system:masters",))

    decision, asked = play(evaluation(wanted_user), allow=lambda _: True)

    assert asked == [ON_LIST, USER]
    assert isinstance(decision, Denied)
    assert decision.reason == "impersonating the system:masters group is not allowed"


def test_masters_are_open_to_legacy_alone_once_they_are_not_protected() -> None:
    wanted_user = UserInfo("alice", groups=("system:masters",))
    rules = ImpersonationRules(protected_groups=frozenset())

    decision, asked = play(evaluation(wanted_user, rules=rules), allow=lambda _: True)

    assert isinstance(decision, Allowed)
    assert decision.mode is ImpersonationMode.LEGACY
    assert asked == [ON_LIST, USER, LEGACY_USER, "impersonate groups /system:masters"]


def test_without_any_mode_left_the_denial_says_why() -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))

    nothing_left = play(evaluation(UserInfo(NODE.name, uid="1"), rules=rules), allow=lambda _: True)
    denied, asked = play(evaluation(ALICE, rules=rules), allow=granting())

    assert nothing_left == (Denied(None, "legacy impersonation is disabled"), [])
    assert asked == [ON_LIST]
    assert isinstance(denied, Denied)
    assert denied.first_failure is not None
    assert short(denied.first_failure) == ON_LIST


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (CheckResult(allowed=False), ""),
        (CheckResult(allowed=False, reason="no"), "no"),
        (CheckResult(allowed=False, error="boom"), "boom"),
        (CheckResult(allowed=False, reason="no", error="boom"), "boom: no"),
    ],
)
def test_the_reason_of_a_denial_is_what_the_authorizer_said(
    result: CheckResult, reason: str
) -> None:
    decision = run(evaluation(ALICE), lambda question: result)

    assert isinstance(decision, Denied)
    assert decision.reason == reason


def test_a_yes_stays_a_yes_when_the_authorizer_stumbled() -> None:
    result = CheckResult(allowed=True, error="boom")

    decision = run(evaluation(ALICE), lambda q: result if isinstance(q, Ask) else NO)

    assert isinstance(decision, Allowed)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (CheckResult(allowed=True, reason="fine", error="boom"), "fine"),
        (CheckResult(allowed=False, reason="no", error="boom"), "no"),
        (CheckResult(allowed=False, error="boom"), ""),
    ],
)
def test_the_former_filter_takes_any_error_for_a_no_and_drops_its_text(
    result: CheckResult, reason: str
) -> None:
    former = ImpersonationRules(constrained=False)

    decision = run(evaluation(ALICE, rules=former), lambda _: result)

    assert isinstance(decision, Denied)
    assert decision.reason == reason


def test_the_former_filter_allows_on_a_plain_yes() -> None:
    former = ImpersonationRules(constrained=False)

    decision, asked = play(evaluation(NODE, rules=former), allow=lambda _: True)

    assert isinstance(decision, Allowed)
    assert decision.mode is ImpersonationMode.LEGACY
    assert asked == [LEGACY_NODE]
