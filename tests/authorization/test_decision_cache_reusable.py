"""A decision that is made again comes out as if it had been made for the first time."""

from proxy.authorization.decision_cache import RepeatableDecisions
from proxy.core.impersonation.checks import Attempt, DecisionRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import Mode, acting_identity
from proxy.core.impersonation.permit import DEFAULT_GUARDS, admit_as
from proxy.core.requestinfo.request_info import parse_action
from proxy.core.userinfo import Caller, Identity

BOB = Caller(Identity("bob", groups=("system:authenticated",)))


def allowed(target: bytes = b"/api/v1/pods", *, wanted: Identity | None = None) -> Allowed:
    wanted = wanted or Identity("alice")
    action = parse_action(b"GET", target)
    attempt = Attempt(Mode.USER_INFO, BOB.identity, wanted, action, DecisionRules())
    return Allowed(attempt, acting_identity(Mode.USER_INFO, wanted))


def is_kept(verdict: Allowed) -> bool:
    decisions = RepeatableDecisions()
    decisions.keep("request", verdict, DEFAULT_GUARDS, admit_as(BOB, verdict))
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

    assert is_kept(allowed(wanted=Identity("alice", groups=few)))
    assert not is_kept(allowed(wanted=Identity("alice", groups=many)))
    assert not is_kept(allowed(wanted=Identity("alice", groups=short)))
    assert not is_kept(allowed(wanted=Identity("alice", extra=(("a", many),))))
    assert not is_kept(allowed(wanted=Identity("alice", extra=(("a" * 8192, ("b",)),))))


def test_no_more_than_a_bounded_number_is_kept() -> None:
    decisions, verdict = RepeatableDecisions(), allowed()
    admission = admit_as(BOB, verdict)

    for number in range(5000):
        decisions.keep(number, verdict, DEFAULT_GUARDS, admission)

    found = [number for number in range(5000) if decisions.find(number) is not None]
    assert 0 < len(found) <= 4096
    assert found[-1] == 4999
