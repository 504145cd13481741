"""Prefetched access checks: which are sent ahead, which are counted, and what ends them."""

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from proxy.authorization.access_review import AccessReviewQueue
from proxy.authorization.check_prefetch import CheckPrefetcher
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.evaluation import Ask
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics
from tests.support.clock import FakeClock
from tests.support.metric_values import metric_values

BOB = UserInfo("bob")
USER_INFO, LEGACY = ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY
MAX_CONCURRENT = 128
COMPLETED = "apiserver_impersonation_authorization_attempts_total"
SECONDS = "apiserver_impersonation_authorization_attempts_duration_seconds_sum"
UNUSED = "understudy_access_reviews_unused_total"


class Reviewer(AccessReviewQueue):
    """Allows the names it is given, and fails for the name `broken`."""

    def __init__(self, clock: FakeClock, allowed: Sequence[str]) -> None:
        self.submitted: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._clock = clock
        self._allowed = allowed
        self._tasks = TaskSet(lambda error: None)

    def submit(self, check: AccessCheck) -> asyncio.Task[CheckResult]:
        self.submitted.append(check.name)
        return self._tasks.start(self._review(check))

    async def _review(self, check: AccessCheck) -> CheckResult:
        await self.gate.wait()
        self._clock.advance(1)
        if check.name == "broken":
            raise ConnectionError("no review")
        return CheckResult(check.name in self._allowed)


class Decision:
    """A prefetcher with its reviewer, counter and clock."""

    def __init__(self, *allowed: str, has_modes: bool = True) -> None:
        clock = FakeClock()
        self.reviewer = Reviewer(clock, allowed)
        self.registry = CollectorRegistry()
        counter = ImpersonationMetrics(self.registry)
        self.prefetcher = CheckPrefetcher(self.reviewer, counter, clock, has_modes=has_modes)

    async def ask(
        self, name: str, *upcoming: str, mode: ImpersonationMode = USER_INFO
    ) -> CheckResult:
        return await self.prefetcher.result_of(Ask(mode, check(name), tuple(map(check, upcoming))))


def check(name: str) -> AccessCheck:
    return AccessCheck(BOB, "impersonate", resource="users", name=name)


async def test_result_is_that_of_the_check_whether_prefetched_or_not() -> None:
    decision = Decision("a", "c")

    results = [await decision.ask("a", "b", "c"), await decision.ask("b"), await decision.ask("c")]

    assert [result.allowed for result in results] == [True, False, True]
    assert decision.reviewer.submitted == ["a", "b", "c"]
    assert decision.prefetcher.count == 3


async def test_upcoming_checks_are_submitted_before_the_current_result() -> None:
    decision = Decision("a")
    decision.reviewer.gate.clear()

    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(decision.ask("a", "b", "c"))
        await asyncio.sleep(0)
        assert decision.reviewer.submitted == ["a", "b", "c"]
        assert not asked.done()
        decision.reviewer.gate.set()

    assert asked.result().allowed


async def test_check_without_upcoming_ones_is_the_only_one_submitted() -> None:
    decision = Decision("a")

    await decision.ask("a")

    assert decision.reviewer.submitted == ["a"]


async def test_check_that_occurs_twice_ahead_is_prefetched_once() -> None:
    decision = Decision("a")

    await decision.ask("a", "a", "b", "b")

    assert decision.reviewer.submitted == ["a", "b"]


async def test_number_of_concurrent_checks_is_bounded_and_the_rest_follow() -> None:
    decision, names = Decision("a"), [f"{number}" for number in range(200)]

    await decision.ask("a", *names)
    assert decision.reviewer.submitted == ["a", *names[: MAX_CONCURRENT - 1]]

    await decision.ask(names[0])
    assert decision.reviewer.submitted == ["a", *names[:MAX_CONCURRENT]]


async def test_waiting_checks_of_a_mode_are_dropped_with_the_next_mode() -> None:
    decision, names = Decision("a"), [f"{number}" for number in range(200)]
    await decision.ask("a", *names)
    sent = len(decision.reviewer.submitted)

    await decision.ask("b", mode=LEGACY)
    await decision.ask(names[0], mode=LEGACY)

    assert decision.reviewer.submitted[sent:] == ["b"]


async def test_used_result_is_counted_with_mode_outcome_and_duration() -> None:
    decision = Decision("a")

    await decision.ask("a")
    await decision.ask("b", mode=LEGACY)

    counts = {"user-info allowed": 1, "legacy denied": 1}
    assert metric_values(decision.registry, COMPLETED) == counts
    assert metric_values(decision.registry, SECONDS) == counts


async def test_decision_without_modes_counts_no_result_for_the_metrics() -> None:
    decision = Decision("a", has_modes=False)

    await decision.ask("a")

    assert metric_values(decision.registry, COMPLETED) == {}
    assert decision.prefetcher.count == 1


async def test_prefetched_results_that_were_not_used_are_counted_at_the_end() -> None:
    decision = Decision("a")
    await decision.ask("a", "b", "c", "d")
    await decision.ask("b")

    decision.prefetcher.close()

    assert metric_values(decision.registry, UNUSED) == {"": 2}


async def test_end_without_unused_results_counts_nothing() -> None:
    decision = Decision("a")
    await decision.ask("a", "b")
    await decision.ask("b")

    decision.prefetcher.close()

    assert metric_values(decision.registry, UNUSED) == {}


async def test_failed_review_fails_its_check_and_is_not_counted() -> None:
    decision = Decision("a")

    assert (await decision.ask("a", "broken")).allowed
    with pytest.raises(ConnectionError, match="no review"):
        await decision.ask("broken")

    assert decision.prefetcher.count == 1
    assert metric_values(decision.registry, COMPLETED) == {"user-info allowed": 1}


async def test_cancelled_decision_leaves_a_shared_review_running() -> None:
    decision = Decision("a")
    decision.reviewer.gate.clear()
    shared = decision.reviewer.submit(check("a"))
    decision.reviewer.submit = lambda check: shared  # type: ignore[method-assign]  # joins it

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await decision.ask("a")
    decision.reviewer.gate.set()

    assert (await shared).allowed
