import pytest

from proxy.core.impersonation.checks import DecisionRules, plan_attempts
from proxy.core.impersonation.evaluation import NO_MODE, hopeless_reason
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import parse_action
from proxy.core.userinfo import Caller, Identity

BOB = Caller(Identity("bob"))
LIST_PODS = parse_action(b"GET", b"/api/v1/pods")
RULES = DecisionRules(legacy=LegacyPolicy(LegacyAction.DENY))


def reason_for(wanted: Identity) -> str | None:
    return hopeless_reason(plan_attempts(BOB, wanted, LIST_PODS, rules=RULES))


@pytest.mark.parametrize(
    "wanted",
    [
        Identity("alice", uid="u", groups=("g",), extra=(("example.com/k", ("v",)),)),
        Identity("system:node:n1"),
        Identity("system:serviceaccount:a:b"),
    ],
)
def test_a_grant_can_open_it(wanted: Identity) -> None:
    assert reason_for(wanted) is None


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Identity("system:node:n1", groups=("system:nodes",)), NO_MODE),
        (Identity("system:serviceaccount:a:b", uid="u"), NO_MODE),
        (
            Identity("alice", groups=("g", "system:masters")),
            "impersonating the system:masters group is not allowed",
        ),
        (Identity("alice", groups=("",)), "impersonating the empty string group is not allowed"),
        (
            Identity("alice", extra=(("", ("v",)),)),
            "impersonating the empty string key in extra is not allowed",
        ),
    ],
)
def test_no_grant_can_open_it(wanted: Identity, reason: str) -> None:
    assert reason_for(wanted) == reason
