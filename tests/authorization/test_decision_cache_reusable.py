"""A decision that is made again comes out as if it had been made for the first time."""

from proxy.authorization.decision_cache import ReusableDecisions
from proxy.core.impersonation.checks import Attempt, ImpersonationRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import ImpersonationMode, impersonated_user
from proxy.core.impersonation.permit import DEFAULT_RESTRICTIONS, permit_impersonation
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo

BOB = Caller(UserInfo("bob", groups=("system:authenticated",)))


def allowed(target: bytes = b"/api/v1/pods", *, wanted_user: UserInfo | None = None) -> Allowed:
    wanted_user = wanted_user or UserInfo("alice")
    request_info = parse_request_info(b"GET", target)
    attempt = Attempt(
        ImpersonationMode.USER_INFO, BOB.user, wanted_user, request_info, ImpersonationRules()
    )
    return Allowed(attempt, impersonated_user(ImpersonationMode.USER_INFO, wanted_user))


def is_kept(decision: Allowed) -> bool:
    decisions = ReusableDecisions()
    decisions.add("request", decision, DEFAULT_RESTRICTIONS, permit_impersonation(BOB, decision))
    return decisions.find("request") is not None


def test_a_small_decision_is_kept() -> None:
    assert is_kept(allowed())


def test_a_decision_on_a_long_path_is_not_kept() -> None:
    assert not is_kept(allowed(b"/api/v1/" + b"a" * 300))


def test_a_decision_with_selectors_is_not_kept() -> None:
    assert not is_kept(allowed(b"/api/v1/pods?labelSelector=app%3Dweb"))


def test_a_decision_for_a_large_identity_is_not_kept() -> None:
    few, many = ("a" * 20,) * 100, ("a" * 80,) * 100
    short = tuple(f"{number}" for number in range(200))

    assert is_kept(allowed(wanted_user=UserInfo("alice", groups=few)))
    assert not is_kept(allowed(wanted_user=UserInfo("alice", groups=many)))
    assert not is_kept(allowed(wanted_user=UserInfo("alice", groups=short)))
    assert not is_kept(allowed(wanted_user=UserInfo("alice", extra=(("a", many),))))
    assert not is_kept(allowed(wanted_user=UserInfo("alice", extra=(("a" * 8192, ("b",)),))))


def test_no_more_than_a_bounded_number_is_kept() -> None:
    decisions, decision = ReusableDecisions(), allowed()
    permit = permit_impersonation(BOB, decision)

    for number in range(5000):
        decisions.add(number, decision, DEFAULT_RESTRICTIONS, permit)

    found = [number for number in range(5000) if decisions.find(number) is not None]
    assert 0 < len(found) <= 4096
    assert found[-1] == 4999
