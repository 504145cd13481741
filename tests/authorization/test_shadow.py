import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from proxy.authorization.access_review import AccessReviewQueue
from proxy.authorization.decision_cache import ImpersonatedRequest
from proxy.authorization.shadow import (
    ShadowDependencies,
    ShadowEvaluator,
    ShadowLimits,
)
from proxy.concurrency.circuit_breaker import FAILURES_TO_SUSPECT, CircuitBreaker
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import TooManyRequests, UpstreamUnavailable
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from proxy.telemetry.metrics.impersonation import ShadowMetrics
from tests.support.clock import FakeClock
from tests.support.metric_values import metric_values

BOB = Caller(UserInfo("bob", groups=("system:authenticated",)))
ALICE = UserInfo("alice")
LIST_PODS = parse_request_info(b"GET", b"/api/v1/pods")
BOTH_HALVES = ("impersonate-on:user-info:list pods", "impersonate:user-info users")


class Authorizer(AccessReviewQueue):
    """Allows what it is told to, at once or when its gate is opened."""

    def __init__(self, *grants: str) -> None:
        self.grants = set(grants)
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.tasks = TaskSet(lambda error: None)

    def submit(self, check: AccessCheck) -> asyncio.Task[CheckResult]:
        self.asked.append(f"{check.verb} {check.resource}{check.path}")
        if self.failure is not None:
            raise self.failure
        return self.tasks.start(self._answer(self.asked[-1]))

    async def _answer(self, question: str) -> CheckResult:
        await self.gate.wait()
        return CheckResult(question in self.grants)


class House:
    """A shadow with its surroundings."""

    def __init__(self, *grants: str, limits: ShadowLimits | None = None) -> None:
        self.clock = FakeClock()
        self.authorizer = Authorizer(*grants)
        self.registry = CollectorRegistry()
        self.chances = [0.9, 0.1]
        self.breaker = CircuitBreaker(lambda: None)
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)
        self.shadow = ShadowEvaluator(
            ImpersonationRules(),
            reviewer=self.authorizer,
            counter=ShadowMetrics(self.registry),
            limits=limits or ShadowLimits(),
            dependencies=ShadowDependencies(
                self.clock, lambda: self.chances.pop(0), self.breaker, self.tasks
            ),
        )

    def offer(self, wanted_user: UserInfo = ALICE, request_info: RequestInfo = LIST_PODS) -> None:
        self.shadow.submit(
            ImpersonatedRequest(BOB, wanted_user, request_info, is_upgrade=False), b"audit-1"
        )

    async def judged(self, wanted_user: UserInfo = ALICE) -> dict[str, float]:
        self.offer(wanted_user)
        await self.settle()
        return self.seen()

    def seen(self) -> dict[str, float]:
        """Return the numbers of requests by outcome and mode."""
        return metric_values(self.registry, "understudy_shadow_requests_total")

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        assert self.failures == []


async def test_what_the_constrained_rules_would_allow() -> None:
    house = House(*BOTH_HALVES)

    assert await house.judged() == {"would-allow user-info": 1}
    assert house.authorizer.asked == list(BOTH_HALVES)


async def test_what_they_would_deny_is_told_with_the_first_missing_check(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(BOTH_HALVES[0])

    with caplog.at_level(logging.INFO):
        seen = await house.judged()

    assert seen == {"would-deny user-info": 1}
    (line,) = caplog.records
    told = str(vars(line))
    assert "impersonate:user-info users.authentication.k8s.io alice" in told
    assert all(word in told for word in ("audit-1", "bob", "alice", "would-deny"))


async def test_legacy_rights_count_for_nothing_here() -> None:
    house = House("impersonate users")

    assert await house.judged() == {"would-deny user-info": 1}
    assert house.authorizer.asked == [BOTH_HALVES[0]]


@pytest.mark.parametrize(
    "wanted_user",
    [
        UserInfo("system:node:n1", groups=("system:nodes",)),
        UserInfo("system:serviceaccount:a:b", uid="u"),
        UserInfo("alice", groups=("system:masters",)),
        UserInfo("alice", extra=(("Bad Key", ("v",)),)),
    ],
    ids=["node with groups", "service account with a uid", "masters", "bad extra"],
)
async def test_what_no_grant_can_open_is_told_apart(wanted_user: UserInfo) -> None:
    house = House(*BOTH_HALVES)

    assert await house.judged(wanted_user) == {"would-deny none": 1}


async def test_equal_requests_are_judged_once_and_all_counted() -> None:
    house = House(*BOTH_HALVES)

    for _ in range(3):
        house.offer()
    await house.settle()
    house.offer()

    assert house.seen() == {"would-allow user-info": 4}
    assert len(house.authorizer.asked) == 2


async def test_a_judgement_counts_for_a_short_time_only() -> None:
    house = House()
    await house.judged()
    house.authorizer.grants |= set(BOTH_HALVES)

    house.clock.advance(11)

    assert await house.judged() == {"would-deny user-info": 1, "would-allow user-info": 1}


async def test_what_does_not_fit_the_queue_is_dropped_and_counted() -> None:
    house = House(*BOTH_HALVES, limits=ShadowLimits(queue_size=3, in_flight=2))
    house.authorizer.gate.clear()

    for number in range(10):
        house.offer(UserInfo(f"user-{number}"))
    await house.settle()
    assert house.seen() == {"dropped ": 5}
    assert len(house.authorizer.asked) == 2
    house.authorizer.gate.set()
    await house.settle()
    await house.settle()

    assert house.seen() == {"dropped ": 5, "would-allow user-info": 5}


async def test_more_than_the_ration_is_dropped_and_counted() -> None:
    house = House(*BOTH_HALVES, limits=ShadowLimits(per_second=2, queue_size=100))

    for number in range(5):
        house.offer(UserInfo(f"user-{number}"))
    await house.settle()
    house.clock.advance(1)
    house.offer(UserInfo("user-9"))
    await house.settle()

    assert house.seen() == {"dropped ": 3, "would-allow user-info": 3}


async def test_nobody_is_asked_while_real_decisions_get_no_answers() -> None:
    house = House(*BOTH_HALVES)
    for _ in range(FAILURES_TO_SUSPECT):
        house.breaker.failed()
    house.breaker.on_probe(answered=False)

    assert await house.judged() == {"dropped ": 1}
    assert house.authorizer.asked == []


async def test_a_giant_is_dropped_instead_of_kept() -> None:
    house = House(*BOTH_HALVES)

    seen = await house.judged(UserInfo("alice", groups=tuple("g" * 100 for _ in range(100))))

    assert seen == {"dropped ": 1}


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (UpstreamUnavailable("access cannot be reviewed"), "error"),
        (TooManyRequests("too many", retry_after_seconds=1), "dropped"),
    ],
)
async def test_no_answer_is_no_judgement_and_not_remembered(
    failure: Exception, outcome: str
) -> None:
    house = House(*BOTH_HALVES)
    house.authorizer.failure = failure
    assert await house.judged() == {f"{outcome} ": 1}

    house.authorizer.failure = None

    assert await house.judged() == {f"{outcome} ": 1, "would-allow user-info": 1}


async def test_a_sample_is_chosen_by_chance() -> None:
    house = House(*BOTH_HALVES, limits=ShadowLimits(sample=0.5))

    assert await house.judged() == {}
    assert await house.judged() == {"would-allow user-info": 1}


async def test_a_request_with_a_long_path_is_not_held() -> None:
    house = House(*BOTH_HALVES)
    path = b"/api/v1/namespaces/n/services/s/proxy/" + b"a" * 60_000

    house.offer(request_info=parse_request_info(b"GET", path))
    await house.settle()

    assert house.authorizer.asked == []
    assert sum(house.seen().values()) == 1
