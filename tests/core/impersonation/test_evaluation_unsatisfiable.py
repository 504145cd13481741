import pytest

from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import NO_CONSTRAINED_MODE, unsatisfiable_reason
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo

BOB = Caller(UserInfo("bob"))
LIST_PODS = parse_request_info(b"GET", b"/api/v1/pods")
RULES = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))


def reason_for(wanted_user: UserInfo) -> str | None:
    return unsatisfiable_reason(plan_attempts(BOB, wanted_user, LIST_PODS, rules=RULES))


@pytest.mark.parametrize(
    "wanted_user",
    [
        UserInfo("alice", uid="u", groups=("g",), extra=(("example.com/k", ("v",)),)),
        UserInfo("system:node:n1"),
        UserInfo("system:serviceaccount:a:b"),
    ],
)
def test_a_grant_can_open_it(wanted_user: UserInfo) -> None:
    assert reason_for(wanted_user) is None


@pytest.mark.parametrize(
    ("wanted_user", "reason"),
    [
        (UserInfo("system:node:n1", groups=("system:nodes",)), NO_CONSTRAINED_MODE),
        (UserInfo("system:serviceaccount:a:b", uid="u"), NO_CONSTRAINED_MODE),
        (
            UserInfo("alice", groups=("g", "system:masters")),
            "impersonating the system:masters group is not allowed",
        ),
        (UserInfo("alice", groups=("",)), "impersonating the empty string group is not allowed"),
        (
            UserInfo("alice", extra=(("", ("v",)),)),
            "impersonating the empty string key in extra is not allowed",
        ),
    ],
)
def test_no_grant_can_open_it(wanted_user: UserInfo, reason: str) -> None:
    assert reason_for(wanted_user) == reason
