"""What holds for every decision, whatever is asked and whatever the policy says."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.cache_keys import request_key, user_key
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    ImpersonationRules,
    Step,
    WildcardCheck,
    identity_steps,
    plan_attempts,
    request_checks,
)
from proxy.core.impersonation.evaluation import (
    Allowed,
    CacheLookup,
    CacheScope,
    Denied,
    ImpersonationDecision,
    Question,
    evaluate,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from tests.core.play import NO, YES, play, run
from tests.properties import strategies

pytestmark = pytest.mark.timeout(120)  # many examples on a busy machine

SALTS = st.integers(0, 1000)


@dataclass(frozen=True)
class Case:
    """One request, and what the proxy knows when it comes."""

    caller: Caller
    wanted_user: UserInfo
    request_info: RequestInfo
    rules: ImpersonationRules
    remembered: ImpersonationMode | None

    def attempts(self) -> Iterator[Attempt]:
        return plan_attempts(
            self.caller,
            self.wanted_user,
            self.request_info,
            rules=self.rules,
            preferred_mode=self.remembered,
            is_upgrade=True,
        )

    def decide(self, granted: set[AccessCheck]) -> ImpersonationDecision:
        return play(evaluate(self.attempts()), allow=lambda check: check in granted)[0]


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Case, set[AccessCheck]]:
    """Draw a request and the set of checks that a policy allows, out of all it could lead to."""
    case = Case(
        draw(strategies.callers),
        draw(strategies.wanted_identities),
        draw(strategies.actions),
        draw(strategies.rules),
        draw(strategies.modes),
    )
    return case, draw(subsets(every_check(case)))


def subsets(checks: set[AccessCheck]) -> st.SearchStrategy[set[AccessCheck]]:
    """Draw which checks of a set are in: all but a few more often than not, or without stars."""
    ordered = sorted(checks, key=repr)
    if not ordered:
        return st.just(set())
    few = st.sets(st.sampled_from(ordered), max_size=2)
    constrained = {check for check in ordered if check.verb != "impersonate"}
    plain = {check for check in constrained if check.name != "*"}
    return st.one_of(
        few,
        few.map(lambda missing: set(ordered) - missing),
        few.map(lambda missing: constrained - missing),
        few.map(lambda missing: plain - missing),
    )


def every_check(case: Case) -> set[AccessCheck]:
    """Return every check that any answers could lead to."""
    checks: set[AccessCheck] = set()
    for attempt in case.attempts():
        checks.update(request_checks(attempt))
        for step in identity_steps(attempt):
            match step:
                case AccessCheck():
                    checks.add(step)
                case WildcardCheck():
                    checks.update((step.check, *step.individual_checks()))
                case ForbiddenStep():
                    pass
    return checks


@settings(max_examples=200)
@given(decisions(), st.data())
def test_turning_any_yes_into_a_no_never_turns_a_denial_into_an_allow(
    decision: tuple[Case, set[AccessCheck]], data: st.DataObject
) -> None:
    case, granted = decision
    left = data.draw(subsets(granted))

    before, after = case.decide(granted), case.decide(left)

    if isinstance(after, Allowed):
        assert isinstance(before, Allowed)


@settings(max_examples=200)
@given(decisions())
def test_nothing_is_allowed_without_a_yes_for_every_part_of_the_winning_mode(
    decision: tuple[Case, set[AccessCheck]],
) -> None:
    case, granted = decision

    verdict = case.decide(granted)

    if isinstance(verdict, Allowed):
        assert set(request_checks(verdict.attempt)) <= granted
        assert all(is_granted(step, granted) for step in identity_steps(verdict.attempt))
        assert verdict.impersonated_user.name == case.wanted_user.name


@settings(max_examples=200)
@given(decisions())
def test_a_denial_means_that_no_mode_was_permitted_in_full(
    decision: tuple[Case, set[AccessCheck]],
) -> None:
    case, granted = decision

    verdict = case.decide(granted)

    if isinstance(verdict, Denied):
        for attempt in case.attempts():
            is_action_granted = set(request_checks(attempt)) <= granted
            steps = identity_steps(attempt)
            assert not (is_action_granted and all(is_granted(step, granted) for step in steps))


def is_granted(step: Step, granted: set[AccessCheck]) -> bool:
    match step:
        case AccessCheck():
            return step in granted
        case WildcardCheck():
            return step.check in granted or set(step.individual_checks()) <= granted
        case ForbiddenStep():
            return False


NAMES = ["g1", "g2", "g3", "g4", "g5", "*"]


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(NAMES[:-1]), min_size=4, max_size=6).map(tuple),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(["groups", "userextras"]),
)
def test_a_star_stands_for_its_items_and_without_it_every_one_of_them_counts(
    names: tuple[str, ...], denied: set[str], resource: str
) -> None:
    wanted_user = UserInfo("alice", groups=names)
    if resource == "userextras":
        wanted_user = UserInfo("alice", extra=(("a.io/x", names),))
    case = Case(
        Caller(UserInfo("bob")),
        wanted_user,
        parse_request_info(b"GET", b"/api/v1/pods"),
        ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY)),
        None,
    )

    decision = case.decide({check for check in every_check(case) if check.name not in denied})

    assert isinstance(decision, Allowed) == ("*" not in denied or denied.isdisjoint(names))


any_attempt = st.builds(
    Attempt,
    st.sampled_from(ImpersonationMode),
    strategies.identities,
    strategies.wanted_identities,
    strategies.actions,
    st.just(ImpersonationRules()),
    st.booleans(),
)


@st.composite
def pairs_of_attempts(draw: st.DrawFn) -> tuple[Attempt, Attempt]:
    """Draw two attempts that differ in one part at most."""
    one, other = draw(any_attempt), draw(any_attempt)
    part = draw(st.sampled_from(["mode", "caller", "wanted", "action", "action"]))
    changed = Attempt(
        other.mode if part == "mode" else one.mode,
        other.caller if part == "caller" else one.caller,
        other.wanted_user if part == "wanted" else one.wanted_user,
        other.request_info if part == "action" else one.request_info,
        one.rules,
        one.requires_create,
    )
    return one, changed


@settings(max_examples=300)
@given(pairs_of_attempts())
def test_decisions_with_the_same_key_were_made_by_the_same_checks(
    pair: tuple[Attempt, Attempt],
) -> None:
    one, other = pair

    if request_key(one) == request_key(other):
        assert request_checks(one) == request_checks(other)
    if user_key(one) == user_key(other):
        assert identity_steps(one) == identity_steps(other)


class Memory:
    """The caches and the mode memory of a proxy, kept for ever, before an unchanging policy."""

    def __init__(self, salt: int, *, remembers: bool) -> None:
        self._salt = salt
        self._remembers = remembers
        self._known: set[bytes] = set()
        self._modes: dict[str, ImpersonationMode] = {}

    def decide(
        self,
        caller: Caller,
        wanted_user: UserInfo,
        request_info: RequestInfo,
        rules: ImpersonationRules,
    ) -> tuple[ImpersonationMode, UserInfo] | None:
        """Return the mode and the identity of an allowed request, or None."""
        name = caller.user.name
        attempts = plan_attempts(
            caller, wanted_user, request_info, rules=rules, preferred_mode=self._modes.get(name)
        )
        decision = run(evaluate(attempts), self._answer)
        if not isinstance(decision, Allowed):
            return None
        self._modes[name] = decision.mode
        self._known.update(key(decision.attempt, layer) for layer in decision.cacheable)
        return decision.mode, decision.impersonated_user

    def _answer(self, question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            is_known = key(question.attempt, question.scope) in self._known
            return YES if self._remembers and is_known else NO
        return YES if strategies.allowed_by(question.check, self._salt) else NO


def key(attempt: Attempt, layer: CacheScope) -> bytes:
    return request_key(attempt) if layer is CacheScope.REQUEST else user_key(attempt)


@settings(max_examples=100)
@given(
    SALTS,
    strategies.rules,
    st.lists(
        st.tuples(strategies.callers, strategies.wanted_identities, strategies.actions),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(0, 5), max_size=24),
)
def test_with_and_without_caches_the_decision_is_the_same_while_grants_stand_still(
    salt: int,
    rules: ImpersonationRules,
    requests: list[tuple[Caller, UserInfo, RequestInfo]],
    order: list[int],
) -> None:
    forgetful, mindful = Memory(salt, remembers=False), Memory(salt, remembers=True)

    for index in order:
        caller, wanted_user, request_info = requests[index % len(requests)]
        without = forgetful.decide(caller, wanted_user, request_info, rules)
        with_caches = mindful.decide(caller, wanted_user, request_info, rules)

        assert with_caches == without
