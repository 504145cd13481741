import asyncio

import pytest
from prometheus_client import CollectorRegistry

from proxy.authorization.access_review import (
    AccessReviewQueue,
    KubernetesAccessReviewer,
    ReviewLimits,
)
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import ReviewRejected, TooManyRequests, UpstreamUnavailable
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics
from tests.support.clock import FakeClock
from tests.support.metric_values import metric_values

YES = CheckResult(allowed=True)
CHECK = AccessCheck(UserInfo("bob"), "impersonate", resource="users", name="alice")
MOST_BYTES = 4096
REVIEWS = "understudy_access_reviews_total"
OTHER = AccessCheck(UserInfo("bob"), "impersonate", resource="users", name="carol")


class Reviewer(KubernetesAccessReviewer):
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked: list[AccessCheck] = []
        self.open = asyncio.Event()
        self.most_at_once = 0
        self._at_once = 0
        self.failure: Exception | None = None

    async def review(self, check: AccessCheck) -> CheckResult:
        self.asked.append(check)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self.open.wait()
        finally:
            self._at_once -= 1
        if self.failure is not None:
            raise self.failure
        return YES


def desk_for(
    reviewer: Reviewer,
    *,
    in_flight: int = 128,
    timeout_seconds: float = 5.0,
    burst: int = 1000,
    registry: CollectorRegistry | None = None,
    breaker: CircuitBreaker | None = None,
) -> AccessReviewQueue:
    clock = FakeClock()
    return AccessReviewQueue(
        reviewer,
        buckets=KeyedTokenBucket(RateLimit(per_second=1, burst=burst), clock, rejection="too many"),
        breaker=breaker or CircuitBreaker(lambda: None),
        counter=ImpersonationMetrics(registry or CollectorRegistry()),
        limits=ReviewLimits(in_flight, timeout_seconds, document_bytes=MOST_BYTES),
        tasks=TaskSet(lambda error: None),
    )


async def test_identical_questions_under_way_are_asked_once() -> None:
    reviewer = Reviewer()
    queue = desk_for(reviewer)

    waiting = [asyncio.shield(queue.submit(CHECK)) for _ in range(1000)]
    reviewer.open.set()
    answers = await asyncio.gather(*waiting)

    assert reviewer.asked == [CHECK]
    assert set(answers) == {YES}


async def test_an_answer_is_not_kept_for_the_next_question() -> None:
    reviewer = Reviewer()
    reviewer.open.set()
    queue = desk_for(reviewer)

    await queue.submit(CHECK)
    await queue.submit(CHECK)

    assert reviewer.asked == [CHECK, CHECK]


async def test_questions_about_different_callers_are_never_shared() -> None:
    reviewer = Reviewer()
    reviewer.open.set()
    queue = desk_for(reviewer)
    same_for_another = AccessCheck(
        UserInfo("bob", groups=("other",)), "impersonate", resource="users", name="alice"
    )

    await asyncio.gather(queue.submit(CHECK), queue.submit(same_for_another))

    assert reviewer.asked == [CHECK, same_for_another]


async def test_a_caller_that_leaves_does_not_take_the_answer_from_others() -> None:
    reviewer = Reviewer()
    queue = desk_for(reviewer)

    async def wait() -> CheckResult:
        return await asyncio.shield(queue.submit(CHECK))

    leaving, staying = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    leaving.cancel()
    reviewer.open.set()

    assert await staying == YES
    assert reviewer.asked == [CHECK]


async def test_no_more_than_the_limit_are_under_way() -> None:
    reviewer = Reviewer()
    queue = desk_for(reviewer, in_flight=2)
    checks = [AccessCheck(UserInfo("bob"), "impersonate", name=str(number)) for number in range(6)]

    waiting = [queue.submit(check) for check in checks]
    for _ in range(10):
        await asyncio.sleep(0)
    reviewer.open.set()
    await asyncio.gather(*waiting)

    assert reviewer.most_at_once == 2
    assert len(reviewer.asked) == 6


async def test_a_late_answer_is_no_answer() -> None:
    registry = CollectorRegistry()
    queue = desk_for(Reviewer(), timeout_seconds=0.01, registry=registry)

    with pytest.raises(UpstreamUnavailable) as refused:
        await queue.submit(CHECK)

    assert refused.value.code == 503
    assert metric_values(registry, REVIEWS) == {"error": 1}


async def test_a_caller_with_many_questions_does_not_make_another_wait_behind_them_all() -> None:
    reviewer = Reviewer()
    queue = desk_for(reviewer, in_flight=2)
    flood = [AccessCheck(UserInfo("bob"), "impersonate", name=str(number)) for number in range(50)]
    alone = AccessCheck(UserInfo("dave"), "impersonate", name="eve")

    waiting = [queue.submit(check) for check in (*flood, alone)]
    await asyncio.sleep(0)
    reviewer.open.set()
    await asyncio.gather(*waiting)

    assert reviewer.asked.index(alone) <= 3


async def test_questions_that_never_had_their_turn_do_not_open_the_breaker() -> None:
    reviewer = Reviewer()
    queue = desk_for(reviewer, in_flight=1, timeout_seconds=0.01)
    checks = [AccessCheck(UserInfo("bob"), "impersonate", name=str(number)) for number in range(9)]

    waiting = [queue.submit(check) for check in checks]
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    reviewer.open.set()

    assert all(isinstance(error, UpstreamUnavailable) for error in ended)
    assert await queue.submit(OTHER) == YES


async def test_failures_and_a_failed_probe_open_the_breaker_and_nothing_is_asked() -> None:
    reviewer = Reviewer()
    reviewer.open.set()
    reviewer.failure = UpstreamUnavailable("down")
    breaker = CircuitBreaker(lambda: breaker.on_probe(answered=False))
    queue = desk_for(reviewer, breaker=breaker)
    for _ in range(5):
        with pytest.raises(UpstreamUnavailable):
            await queue.submit(CHECK)

    with pytest.raises(UpstreamUnavailable, match="does not answer"):
        await queue.submit(OTHER)

    assert reviewer.asked == [CHECK] * 5


async def test_a_caller_beyond_its_ration_is_told_to_come_again() -> None:
    reviewer = Reviewer()
    reviewer.open.set()
    queue = desk_for(reviewer, burst=1)
    await queue.submit(CHECK)

    with pytest.raises(TooManyRequests):
        await queue.submit(OTHER)

    assert reviewer.asked == [CHECK]


async def test_a_refused_review_is_no_failure_of_the_api_server() -> None:
    reviewer, registry = Reviewer(), CollectorRegistry()
    reviewer.open.set()
    reviewer.failure = ReviewRejected("not accepted")
    probes: list[None] = []
    queue = desk_for(
        reviewer, registry=registry, breaker=CircuitBreaker(lambda: probes.append(None))
    )

    for _ in range(20):
        with pytest.raises(ReviewRejected):
            await queue.submit(CHECK)

    assert probes == []
    assert metric_values(registry, REVIEWS) == {"refused": 20}


async def test_a_review_that_is_too_large_is_refused_and_never_sent() -> None:
    reviewer = Reviewer()
    reviewer.open.set()
    queue = desk_for(reviewer)
    large = AccessCheck(UserInfo("bob"), "impersonate", resource="users", name="a" * MOST_BYTES)

    with pytest.raises(ReviewRejected, match=f"more than {MOST_BYTES} bytes"):
        await queue.submit(large)

    assert reviewer.asked == []
    assert await queue.submit(CHECK) == YES
