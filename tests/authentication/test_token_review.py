"""Reviews of tokens in bounded numbers: who waits, who is told to come again, who pays."""

import asyncio
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from proxy.authentication.token_review import KubernetesTokenReviewer, TokenReviewQueue
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.core.errors import (
    StatusError,
    TooManyRequests,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.authentication import TokenMetrics
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually
from tests.support.metric_values import metric_values

HERE, THERE = "192.0.2.1", "192.0.2.2"
BURST, PLACES = 4, 2


@dataclass
class SlowReviewer(KubernetesTokenReviewer):
    """Answers when it is let; a token is its owner's name, `nobody`, `doubt` or `down`."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    async def review(self, token: str) -> UserInfo | None:
        self.asked.append(token)
        await self.gate.wait()
        kind = token.partition("-")[0]
        if kind == "down":
            raise UpstreamUnavailable("nobody answers")
        if kind == "doubt":
            raise Unauthorized
        return None if kind == "nobody" else UserInfo(kind)


@dataclass
class House:
    """A desk and what is around it."""

    reviewer: SlowReviewer
    registry: CollectorRegistry
    clock: FakeClock
    queue: TokenReviewQueue

    def counted(self) -> dict[str, float]:
        reviewed = "understudy_token_review_duration_seconds_count"
        rejected = "understudy_tokens_rejected_total"
        return metric_values(self.registry, reviewed) | metric_values(self.registry, rejected)

    async def ask(self, token: str, *, origin: str = HERE) -> UserInfo | type[StatusError] | None:
        try:
            self.queue.take_rate_limit(origin)
            return await self.queue.review(token, origin=origin, when_sent=lambda: None)
        except StatusError as refusal:
            return type(refusal)


def new_house(*, timeout_seconds: float = 10.0) -> House:
    reviewer, registry, clock = SlowReviewer(), CollectorRegistry(), FakeClock()
    queue = TokenReviewQueue(
        reviewer,
        buckets=KeyedTokenBucket(RateLimit(per_second=1, burst=BURST), clock, rejection="too many"),
        counter=TokenMetrics(registry),
        limits=(PLACES, timeout_seconds),
        clock=clock,
    )
    return House(reviewer, registry, clock, queue)


@pytest.fixture
async def house() -> House:
    house = new_house()
    house.reviewer.gate.set()
    return house


@pytest.mark.parametrize("token", ["nobody", "doubt"])
async def test_an_address_that_guesses_is_soon_told_to_come_again(house: House, token: str) -> None:
    for _ in range(BURST):
        assert await house.ask(token) in {None, Unauthorized}

    assert await house.ask(token) is TooManyRequests
    assert len(house.reviewer.asked) == BURST
    assert house.counted() == {"refused": BURST, "address": 1}


async def test_another_address_does_not_pay_for_it(house: House) -> None:
    for _ in range(BURST + 1):
        await house.ask("nobody")

    assert await house.ask("alice", origin=THERE) == UserInfo("alice")


async def test_guessing_is_allowed_again_at_the_rate(house: House) -> None:
    for _ in range(BURST + 1):
        await house.ask("nobody")

    house.clock.advance(1)

    assert await house.ask("nobody") is None
    assert await house.ask("nobody") is TooManyRequests


@pytest.mark.parametrize(
    ("token", "answer"), [("alice", UserInfo("alice")), ("down", UpstreamUnavailable)]
)
async def test_an_owner_costs_nothing_nor_does_no_answer(
    house: House, token: str, answer: object
) -> None:
    for _ in range(3 * BURST):
        assert await house.ask(token) == answer

    outcome = "authenticated" if token == "alice" else "error"
    assert house.counted() == {outcome: 3 * BURST}


async def test_what_is_under_way_counts_until_an_owner_is_found() -> None:
    house = new_house()
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(house.ask(f"alice-{number}")) for number in range(BURST)]
        await eventually(lambda: len(house.reviewer.asked) == PLACES)
        too_many = await house.ask("alice-more")
        house.reviewer.gate.set()

    assert too_many is TooManyRequests
    assert {task.result() for task in asking} == {UserInfo("alice")}
    assert await house.ask("alice-more") == UserInfo("alice")


async def test_only_so_many_are_under_way_and_addresses_take_turns() -> None:
    house = new_house()
    async with asyncio.TaskGroup() as group:
        for number in range(BURST):
            group.create_task(house.ask(f"nobody-{number}"))
        await eventually(lambda: len(house.reviewer.asked) == PLACES)
        group.create_task(house.ask("alice", origin=THERE))
        for _ in range(10):
            await asyncio.sleep(0)
        waiting = list(house.reviewer.asked)
        house.reviewer.gate.set()

    assert waiting == ["nobody-0", "nobody-1"]
    # The first of each line, and only then the second of the longer one.
    assert house.reviewer.asked == ["nobody-0", "nobody-1", "nobody-2", "alice", "nobody-3"]


async def test_who_never_had_a_turn_is_told_to_come_again_and_who_had_got_no_answer() -> None:
    house = new_house(timeout_seconds=0.05)
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(house.ask(f"alice-{number}")) for number in range(PLACES + 1)]

    assert [task.result() for task in asking] == [
        UpstreamUnavailable,
        UpstreamUnavailable,
        TooManyRequests,
    ]
    assert house.counted() == {"error": PLACES, "turn": 1}
