import pytest

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.explain.explainer import (
    NO_MODE,
    SWITCHED_OFF,
    ExplainSteps,
    explain,
)
from proxy.core.explain.explanation import (
    ClientResponse,
    DecisionContext,
    ExplainRequest,
    Explanation,
    ModeOutcome,
)
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.evaluation import LEGACY_DISABLED
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import IdentityRestrictions
from proxy.core.impersonation.policy import ExtraPolicy, LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import (
    MASTERS,
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)
from tests.core.play import short

BOB = Caller(UserInfo("bob", groups=("system:authenticated",)))
AGENT = Caller(
    UserInfo("system:serviceaccount:ns:agent", extra=make_extra({NODE_NAME_KEY: ["n1"]}))
)
ALICE = UserInfo("alice")
NODE = UserInfo("system:node:n1")
LIST_PODS = parse_request_info(b"GET", b"/api/v1/namespaces/a/pods")
EXEC = parse_request_info(b"GET", b"/api/v1/namespaces/a/pods/p/exec")
RULES = ImpersonationRules()

ON_LIST = "impersonate-on:user-info:list pods a/"
BE_ALICE = "impersonate:user-info users.authentication.k8s.io /alice"
LEGACY_ALICE = "impersonate users /alice"
OWN_LIST = "list pods a/"


def tell(telling: ExplainSteps, *yes: str) -> tuple[Explanation, list[str]]:
    """Say yes to these checks; return what is told, and the list of what was asked."""
    asked: list[str] = []
    try:
        check = next(telling)
        while True:
            asked.append(short(check))
            check = telling.send(CheckResult(allowed=short(check) in yes))
    except StopIteration as told:
        explanation: Explanation = told.value
        return explanation, asked


def explained(
    *yes: str,
    wanted_user: UserInfo | None = ALICE,
    caller: Caller = BOB,
    request_info: RequestInfo = LIST_PODS,
    circumstances: DecisionContext | None = None,
) -> tuple[Explanation, list[str]]:
    request = ExplainRequest(caller, wanted_user, request_info)
    return tell(explain(request, circumstances or DecisionContext(RULES)), *yes)


def missing(explanation: Explanation) -> list[str]:
    return [short(check) for check in explanation.missing]


def outcomes(explanation: Explanation) -> dict[ImpersonationMode, ModeOutcome]:
    return {trial.mode: trial.outcome for trial in explanation.attempts}


def test_a_denial_is_told_as_the_client_is_told_and_what_it_lacks_is_found() -> None:
    told, asked = explained(OWN_LIST)

    assert asked == [ON_LIST, LEGACY_ALICE, BE_ALICE, OWN_LIST]
    assert told.response == ClientResponse(
        403,
        'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" '
        'in API group "" in the namespace "a"',
        is_from_proxy=True,
    )
    assert missing(told) == [ON_LIST, BE_ALICE]
    assert told.grant_mode is ImpersonationMode.USER_INFO
    assert (told.is_impersonation_allowed, told.is_target_allowed, told.is_allowed) == (
        False,
        True,
        False,
    )
    assert outcomes(told) == {
        ImpersonationMode.ASSOCIATED_NODE: ModeOutcome.NOT_APPLICABLE,
        ImpersonationMode.ARBITRARY_NODE: ModeOutcome.NOT_APPLICABLE,
        ImpersonationMode.SERVICE_ACCOUNT: ModeOutcome.NOT_APPLICABLE,
        ImpersonationMode.USER_INFO: ModeOutcome.DENIED,
        ImpersonationMode.LEGACY: ModeOutcome.DENIED,
    }


def test_what_serving_asks_is_told_apart_from_what_only_a_grant_needs() -> None:
    told, _ = explained()
    trial = told.attempts[3]

    assert [short(check) for check, _ in trial.checks] == [ON_LIST]
    assert [short(check) for check, _ in trial.unreached_checks] == [BE_ALICE]


def test_an_allowed_request_needs_nothing() -> None:
    told, asked = explained(ON_LIST, BE_ALICE, OWN_LIST)

    assert asked == [ON_LIST, BE_ALICE, OWN_LIST]
    assert told.is_allowed
    assert told.response is None
    assert told.missing == ()
    assert told.impersonated_user.groups == ("system:authenticated",)
    assert outcomes(told)[ImpersonationMode.LEGACY] is ModeOutcome.NOT_NEEDED


def test_a_target_without_the_right_is_denied_by_the_api_server() -> None:
    told, _ = explained(ON_LIST, BE_ALICE)

    assert told.is_impersonation_allowed
    assert not told.is_allowed
    assert told.response == ClientResponse(
        403,
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the '
        'namespace "a"',
        is_from_proxy=False,
    )


def test_only_what_is_missing_is_granted() -> None:
    told, asked = explained(BE_ALICE, OWN_LIST)

    assert missing(told) == [ON_LIST]
    assert asked.count(BE_ALICE) == 1


def test_what_legacy_allows_can_be_had_without_it() -> None:
    told, _ = explained(LEGACY_ALICE, OWN_LIST)

    assert told.is_allowed
    assert told.mode is ImpersonationMode.LEGACY
    assert missing(told) == [ON_LIST, BE_ALICE]


def test_each_of_many_groups_is_granted_and_never_all_of_them() -> None:
    crowd = UserInfo("alice", groups=("a", "b", "c", "d"))
    told, _ = explained(wanted_user=crowd)
    star = "impersonate:user-info groups.authentication.k8s.io /*"

    assert [name[-1] for name in missing(told)][2:] == ["a", "b", "c", "d"]
    assert star not in missing(told)

    told, _ = explained(star, wanted_user=crowd)

    assert missing(told) == [ON_LIST, BE_ALICE]


def test_a_group_that_is_asked_for_twice_is_granted_once() -> None:
    told, _ = explained(wanted_user=UserInfo("alice", groups=("a", "a")))

    assert len(missing(told)) == 3


def test_the_own_node_comes_before_any_node() -> None:
    told, _ = explained(wanted_user=NODE, caller=AGENT)

    assert told.grant_mode is ImpersonationMode.ASSOCIATED_NODE
    assert told.impersonated_user.groups == ("system:nodes", "system:authenticated")


@pytest.mark.parametrize(
    ("wanted_user", "reason"),
    [
        (UserInfo("alice", groups=(MASTERS,)), "impersonating the system:masters group is not"),
        (UserInfo("alice", groups=("",)), "impersonating the empty string group is not allowed"),
        (
            UserInfo("alice", extra=make_extra({"K": ["v"]})),
            "impersonating an invalid key in extra",
        ),
        (UserInfo("system:node:n1", groups=("g",)), NO_MODE),
        (UserInfo("system:serviceaccount:a:b", uid="1"), NO_MODE),
    ],
    ids=["masters", "empty-group", "extra", "node-with-groups", "account-with-uid"],
)
def test_what_no_grant_can_allow_is_said_and_nothing_is_missing(
    wanted_user: UserInfo, reason: str
) -> None:
    told, _ = explained(wanted_user=wanted_user)

    assert told.unsatisfiable_reason.startswith(reason)
    assert told.missing == ()
    assert not told.is_impersonation_allowed


def test_a_mode_that_can_never_do_says_so() -> None:
    told, _ = explained(ON_LIST, BE_ALICE, wanted_user=UserInfo("alice", groups=(MASTERS,)))

    assert (
        told.attempts[3].forbidden_reason == "impersonating the system:masters group is not allowed"
    )
    assert told.response is not None
    assert told.response.message.endswith("impersonating the system:masters group is not allowed")


def test_legacy_that_is_forbidden_here_does_not_apply() -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
    told, asked = explained(circumstances=DecisionContext(rules))

    assert LEGACY_ALICE not in asked
    assert "impersonation.legacy" in told.attempts[4].reason


def test_no_mode_at_all_is_a_denial_without_a_check() -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
    wanted_user = UserInfo("system:node:n1", groups=("g",))
    told, asked = explained(wanted_user=wanted_user, circumstances=DecisionContext(rules))

    assert asked == [OWN_LIST]
    assert told.response == ClientResponse(403, LEGACY_DISABLED, is_from_proxy=True)


def test_without_constrained_modes_no_grant_counts() -> None:
    told, asked = explained(circumstances=DecisionContext(ImpersonationRules(constrained=False)))

    assert asked == [LEGACY_ALICE, OWN_LIST]
    assert told.unsatisfiable_reason == SWITCHED_OFF


@pytest.mark.parametrize(
    ("restrictions", "words"),
    [
        (IdentityRestrictions(proxy_usernames=frozenset({"alice"})), "the proxy's own identity"),
        (
            IdentityRestrictions(protected_groups=frozenset({"system:authenticated"})),
            "the protected group",
        ),
        (IdentityRestrictions(extras=ExtraPolicy(rejected=frozenset({"acme.io/x"}))), "acme.io/x"),
    ],
    ids=["own-name", "protected-group", "refused-extra"],
)
@pytest.mark.parametrize("has_rights", [True, False])
def test_what_the_proxy_never_forwards_no_grant_opens(
    restrictions: IdentityRestrictions, words: str, *, has_rights: bool
) -> None:
    wanted_user = UserInfo("alice", extra=make_extra({"acme.io/x": ["1"]}))
    extra = "impersonate:user-info userextras.authentication.k8s.io/acme.io/x /1"
    yes = [ON_LIST, BE_ALICE, extra] if has_rights else []
    told, _ = explained(
        *yes, wanted_user=wanted_user, circumstances=DecisionContext(RULES, restrictions)
    )

    assert words in told.unsatisfiable_reason
    assert told.missing == ()
    assert not told.is_impersonation_allowed


def test_a_stream_by_get_needs_create_of_the_target_where_the_server_asks_for_it() -> None:
    _, asked = explained(request_info=EXEC)
    _, formerly = explained(
        request_info=EXEC, circumstances=DecisionContext(RULES, streams_need_create=False)
    )

    assert asked[-2:] == ["get pods/exec a/p", "create pods/exec a/p"]
    assert formerly[-1] == "get pods/exec a/p"


def test_who_acts_as_themselves_needs_their_own_right_alone() -> None:
    told, asked = explained(OWN_LIST, wanted_user=None)

    assert asked == [OWN_LIST]
    assert told.is_allowed
    assert told.impersonated_user == BOB.user


def test_the_proxy_itself_is_not_served() -> None:
    restrictions = IdentityRestrictions(proxy_usernames=frozenset({"bob"}))
    told, _ = explained(
        OWN_LIST, wanted_user=None, circumstances=DecisionContext(RULES, restrictions)
    )

    assert told.response is not None
    assert told.response.is_from_proxy


def test_missing_checks_are_about_the_caller() -> None:
    told, _ = explained()

    assert {check.user for check in told.missing} == {BOB.user}
    assert all(isinstance(check, AccessCheck) for check in told.missing)
