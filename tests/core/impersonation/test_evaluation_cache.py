import pytest

from proxy.core.authorization.access_check import CheckResult
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    CacheLookup,
    CacheScope,
    Evaluation,
    Question,
    evaluate,
)
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.core.play import NO, YES, play_asks, run, short, shorts

BOB = Caller(UserInfo("bob"))
ALICE = UserInfo("alice")
RULES = ImpersonationRules()

ON_LIST = "impersonate-on:user-info:list pods /"
USER = "impersonate:user-info users.authentication.k8s.io /alice"


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


def remembering(*layers: CacheScope) -> tuple[list[str], "Recorder"]:
    asked: list[str] = []
    return asked, Recorder(asked, layers)


class Recorder:
    """Vouches for some layers and allows everything else; writes down what it was asked."""

    def __init__(self, asked: list[str], layers: tuple[CacheScope, ...]) -> None:
        self._asked = asked
        self._layers = layers

    def __call__(self, question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            self._asked.append(f"{question.scope.value}?")
            return YES if question.scope in self._layers else NO
        self._asked.append(short(question.check))
        return YES


@pytest.mark.parametrize(
    ("known", "asked", "learned"),
    [
        ((), ["request?", ON_LIST, "identity?", USER], (CacheScope.IDENTITY, CacheScope.REQUEST)),
        ((CacheScope.IDENTITY,), ["request?", ON_LIST, "identity?"], (CacheScope.REQUEST,)),
        ((CacheScope.REQUEST,), ["request?"], ()),
    ],
)
def test_what_is_known_is_not_asked_again(
    known: tuple[CacheScope, ...], asked: list[str], learned: tuple[CacheScope, ...]
) -> None:
    really_asked, recorder = remembering(*known)

    decision = run(evaluation(ALICE), recorder)

    assert really_asked == asked
    assert isinstance(decision, Allowed)
    assert decision.cacheable == learned
    assert decision.impersonated_user == UserInfo("alice", groups=("system:authenticated",))


def test_a_request_that_is_not_understood_is_neither_recalled_nor_remembered() -> None:
    asked, recorder = remembering(CacheScope.REQUEST)

    decision = run(evaluation(ALICE, target=b"/api/v1/pods?labelSelector=a%20b"), recorder)

    assert asked == [ON_LIST, "identity?", USER]
    assert isinstance(decision, Allowed)
    assert decision.cacheable == (CacheScope.IDENTITY,)


def test_legacy_is_recalled_only_if_configured() -> None:
    asked, recorder = remembering(CacheScope.IDENTITY)
    rules = ImpersonationRules(constrained=False, caches_legacy=True)

    decision = run(evaluation(ALICE, rules=rules), recorder)

    assert asked == ["identity?"]
    assert isinstance(decision, Allowed)
    assert decision.cacheable == ()


def test_what_follows_is_announced_once_and_only_after_the_action_is_allowed() -> None:
    wanted_user = UserInfo("alice", "1", ("a", "b"), make_extra({"a.io/x": ["v"]}))

    asks = play_asks(evaluation(wanted_user))

    announced = [shorts(ask.upcoming) for ask in asks]
    assert announced[0] == []
    assert announced[1] == [short(ask.check) for ask in asks[2:]]
    assert announced[2:] == [[]] * 4
    assert {ask.mode for ask in asks} == {ImpersonationMode.USER_INFO}


def test_the_items_behind_a_star_are_announced_when_it_is_denied() -> None:
    asks = play_asks(evaluation(with_groups(5)), deny={group("*")})

    assert shorts(asks[1].upcoming) == [group("*")]
    assert asks[2].upcoming == ()
    assert shorts(asks[3].upcoming) == [group(f"g{number}") for number in range(1, 5)]
    assert len(asks) == 8


def test_nothing_behind_a_refusal_is_announced() -> None:
    wanted_user = UserInfo("alice", "1", ("system:masters",), make_extra({"a.io/x": ["v"]}))

    asks = play_asks(evaluation(wanted_user))

    assert shorts(asks[1].upcoming) == ["impersonate:user-info uids.authentication.k8s.io /1"]


def test_all_of_legacy_is_announced_with_its_first_check() -> None:
    asks = play_asks(evaluation(with_groups(5), remembered=ImpersonationMode.LEGACY))

    assert len(asks[0].upcoming) == 5
