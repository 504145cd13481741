"""Whose a token is: the API server's word, asked once, remembered for a moment."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from proxy.authentication.token_review import CachedTokenAuthenticator
from proxy.authentication.token_review_queue import TokenReviewQueue
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import (
    StatusError,
    TokenTooLarge,
    TooManyRequests,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.authentication import TokenMetrics
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually

ALICE = UserInfo("alice", groups=("system:authenticated",))
ADDRESS = "192.0.2.1"
BURST = 50
TOKEN_BYTES = 1000
TURNS = 10


@dataclass
class ScriptedReviewer:
    """Knows the owners of tokens; can be made to wait, and to fail."""

    owners: dict[str, UserInfo] = field(default_factory=lambda: {"good": ALICE})
    doubtful: set[str] = field(default_factory=set)
    is_reachable: bool = True
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    async def review(self, token: str) -> UserInfo | None:
        self.asked.append(token)
        await self.gate.wait()
        if not self.is_reachable:
            raise UpstreamUnavailable("nobody answers")
        if token in self.doubtful:
            raise Unauthorized
        return self.owners.get(token)


class Counter:
    """Counts for nobody."""

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        pass

    def token_rejected(self, reason: str) -> None:
        pass


@dataclass
class Desk:
    """An authenticator, what is behind it, and the clock it goes by."""

    reviewer: ScriptedReviewer
    clock: FakeClock
    tokens: CachedTokenAuthenticator

    async def name_of(self, token: bytes) -> str:
        return (await self.tokens.authenticate(token, address=ADDRESS)).user.name


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    reviewer, clock = ScriptedReviewer(), FakeClock()
    reviewer.gate.set()
    failures: list[BaseException] = []
    tasks = TaskSet(failures.append)
    behind = TokenReviewQueue(
        reviewer,
        buckets=KeyedTokenBucket(RateLimit(per_second=1, burst=BURST), clock, rejection="too many"),
        counter=Counter(),
        limits=(TURNS, 10.0),
        clock=clock,
    )
    tokens = CachedTokenAuthenticator(
        behind,
        token_bytes=TOKEN_BYTES,
        success_ttl_seconds=10,
        clock=clock,
        tasks=tasks,
        lookups=TokenMetrics(CollectorRegistry()),
    )
    yield Desk(reviewer, clock, tokens)
    await tasks.stop()
    assert all(isinstance(failure, StatusError) for failure in failures)


async def test_a_token_is_its_owners(desk: Desk) -> None:
    assert (await desk.tokens.authenticate(b"good", address=ADDRESS)).user == ALICE


async def test_a_yes_is_remembered_for_its_time_and_no_longer(desk: Desk) -> None:
    await desk.name_of(b"good")
    desk.clock.advance(9.9)
    await desk.name_of(b"good")
    assert desk.reviewer.asked == ["good"]

    desk.clock.advance(0.2)
    del desk.reviewer.owners["good"]

    with pytest.raises(Unauthorized):
        await desk.name_of(b"good")
    assert desk.reviewer.asked == ["good", "good"]


async def test_using_a_token_does_not_prolong_its_time(desk: Desk) -> None:
    for _ in range(6):
        await desk.name_of(b"good")
        desk.clock.advance(3)

    assert len(desk.reviewer.asked) == 2


async def test_a_remembered_token_is_answered_without_waiting(desk: Desk) -> None:
    await desk.name_of(b"good")

    with pytest.raises(StopIteration) as answered:
        desk.tokens.authenticate(b"good", address=ADDRESS).send(None)

    assert answered.value.value.user == ALICE


async def test_a_no_is_remembered_for_two_seconds(desk: Desk) -> None:
    for seconds in (0, 1.9):
        desk.clock.advance(seconds)
        with pytest.raises(Unauthorized):
            await desk.name_of(b"bad")
    assert desk.reviewer.asked == ["bad"]

    desk.clock.advance(0.2)
    desk.reviewer.owners["bad"] = ALICE

    assert await desk.name_of(b"bad") == "alice"


async def test_a_no_that_is_not_definite_is_not_remembered(desk: Desk) -> None:
    desk.reviewer.doubtful.add("good")
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await desk.name_of(b"good")
    assert desk.reviewer.asked == ["good", "good"]

    desk.reviewer.doubtful.clear()

    assert await desk.name_of(b"good") == "alice"


async def test_no_answer_is_neither_a_no_nor_remembered(desk: Desk) -> None:
    desk.reviewer.is_reachable = False
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable) as refused:
            await desk.name_of(b"good")
        assert refused.value.code == 503
    assert desk.reviewer.asked == ["good", "good"]

    desk.reviewer.is_reachable = True

    assert await desk.name_of(b"good") == "alice"


async def test_a_remembered_yes_outlasts_an_outage_until_its_time(desk: Desk) -> None:
    await desk.name_of(b"good")
    desk.reviewer.is_reachable = False
    desk.clock.advance(9)
    assert await desk.name_of(b"good") == "alice"

    desk.clock.advance(2)

    with pytest.raises(UpstreamUnavailable):
        await desk.name_of(b"good")


async def test_a_thousand_at_once_are_one_question(desk: Desk) -> None:
    desk.reviewer.gate.clear()
    async with asyncio.TaskGroup() as group:
        names = [group.create_task(desk.name_of(b"good")) for _ in range(1000)]
        await eventually(lambda: desk.reviewer.asked)
        desk.reviewer.gate.set()

    assert {name.result() for name in names} == {"alice"}
    assert desk.reviewer.asked == ["good"]


async def test_a_failure_is_told_to_all_who_asked_together(desk: Desk) -> None:
    desk.reviewer.gate.clear()
    desk.reviewer.is_reachable = False
    asking = [asyncio.ensure_future(desk.name_of(b"good")) for _ in range(10)]
    await eventually(lambda: desk.reviewer.asked)

    desk.reviewer.gate.set()

    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(answer) for answer in answers} == {UpstreamUnavailable}
    assert desk.reviewer.asked == ["good"]


async def test_different_tokens_never_share_an_answer(desk: Desk) -> None:
    desk.reviewer.owners["other"] = UserInfo("bob")
    desk.reviewer.gate.clear()
    async with asyncio.TaskGroup() as group:
        good = group.create_task(desk.name_of(b"good"))
        other = group.create_task(desk.name_of(b"other"))
        await eventually(lambda: len(desk.reviewer.asked) == 2)
        desk.reviewer.gate.set()

    assert (good.result(), other.result()) == ("alice", "bob")
    assert (await desk.name_of(b"good"), await desk.name_of(b"other")) == ("alice", "bob")


async def test_a_client_that_leaves_does_not_spoil_the_question_for_others(desk: Desk) -> None:
    desk.reviewer.gate.clear()
    leaver = asyncio.ensure_future(desk.name_of(b"good"))
    stayer = asyncio.ensure_future(desk.name_of(b"good"))
    await eventually(lambda: desk.reviewer.asked)

    leaver.cancel()
    await asyncio.wait([leaver])
    desk.reviewer.gate.set()

    assert leaver.cancelled()
    assert await stayer == "alice"
    assert desk.reviewer.asked == ["good"]


@pytest.mark.parametrize("token", [b"\xff\xfe", "caf\u00e9".encode()])
async def test_a_token_that_is_not_ascii_is_nobodys_and_never_asked_about(
    desk: Desk, token: bytes
) -> None:
    with pytest.raises(Unauthorized):
        await desk.name_of(token)

    assert desk.reviewer.asked == []


async def test_tokens_are_not_kept(desk: Desk) -> None:
    await desk.name_of(b"good")
    with pytest.raises(Unauthorized):
        await desk.name_of(b"canary")

    kept = str({name: value for name, value in vars(desk.tokens).items() if name != "_queue"})
    assert "canary" not in kept
    assert "good" not in kept


async def test_what_is_remembered_of_unknown_tokens_is_bounded(
    desk: Desk,
) -> None:
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await desk.name_of(b"guess-%d" % number)
        desk.clock.advance(1)

    assert len(desk.tokens._rejected) <= 2
    assert len(desk.tokens._callers) == 0
    assert desk.tokens._in_flight == {}


async def test_one_token_too_many_is_told_so_and_a_remembered_one_is_not(desk: Desk) -> None:
    await desk.name_of(b"good")
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await desk.name_of(b"guess-%d" % number)

    with pytest.raises(TooManyRequests) as refused:
        await desk.name_of(b"one more")

    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert "one more" not in desk.reviewer.asked
    assert await desk.name_of(b"good") == "alice"


async def test_another_address_may_still_bring_tokens(desk: Desk) -> None:
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await desk.name_of(b"guess-%d" % number)

    assert (await desk.tokens.authenticate(b"good", address="192.0.2.2")).user == ALICE


async def test_f3_a_token_above_the_limit_is_refused_without_a_review(desk: Desk) -> None:
    desk.reviewer.owners["x" * TOKEN_BYTES] = ALICE
    assert await desk.name_of(b"x" * TOKEN_BYTES) == "alice"

    with pytest.raises(TokenTooLarge) as refused:
        await desk.name_of(b"x" * (TOKEN_BYTES + 1))

    assert (refused.value.code, refused.value.reason) == (431, "RequestHeaderFieldsTooLarge")
    assert str(TOKEN_BYTES) in refused.value.message
    assert desk.reviewer.asked == ["x" * TOKEN_BYTES]


async def test_f3_a_review_that_no_request_waits_for_is_given_up_before_its_turn(
    desk: Desk,
) -> None:
    desk.reviewer.gate.clear()
    first = [asyncio.ensure_future(desk.name_of(b"guess-%d" % one)) for one in range(TURNS)]
    await eventually(lambda: len(desk.reviewer.asked) == TURNS)
    left = asyncio.ensure_future(desk.name_of(b"left"))
    shared = [asyncio.ensure_future(desk.name_of(b"good")) for _ in range(2)]
    await eventually(lambda: len(desk.tokens._in_flight) == TURNS + 2)

    # One of two waits on, and those whose turn has come are asked to the end.
    for request in (left, shared[0], first[0]):
        request.cancel()
    await eventually(lambda: len(desk.tokens._in_flight) == TURNS + 1)
    again = asyncio.ensure_future(desk.name_of(b"left"))
    desk.reviewer.gate.set()

    assert await shared[1] == "alice"
    with pytest.raises(Unauthorized):
        await again
    assert desk.reviewer.asked.count("left") == 1
    await asyncio.wait(first)
    assert desk.tokens._in_flight == {}
