"""Whose a token is: the API server's word, asked once, remembered for a moment."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from proxy.authentication.token_authenticator import CachedTokenAuthenticator
from proxy.authentication.token_review import KubernetesTokenReviewer, TokenReviewQueue
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
from tests.support.metric_values import metric_values

ALICE = UserInfo("alice", groups=("system:authenticated",))
ADDRESS = "192.0.2.1"
BURST = 50
LOOKUPS = "understudy_token_cache_lookups_total"
TOKEN_BYTES = 1000
TURNS = 10


@dataclass
class ScriptedReviewer(KubernetesTokenReviewer):
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


@dataclass
class Setup:
    """An authenticator, what is behind it, and the clock it goes by."""

    reviewer: ScriptedReviewer
    clock: FakeClock
    tokens: CachedTokenAuthenticator
    registry: CollectorRegistry

    async def name_of(self, token: bytes) -> str:
        return (await self.tokens.authenticate(token, address=ADDRESS)).caller.user.name


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    reviewer, clock = ScriptedReviewer(), FakeClock()
    reviewer.gate.set()
    failures: list[BaseException] = []
    tasks = TaskSet(failures.append)
    metrics = TokenMetrics(registry := CollectorRegistry())
    behind = TokenReviewQueue(
        reviewer,
        buckets=KeyedTokenBucket(RateLimit(per_second=1, burst=BURST), clock, rejection="too many"),
        counter=metrics,
        limits=(TURNS, 10.0),
        clock=clock,
    )
    tokens = CachedTokenAuthenticator(
        behind,
        token_bytes=TOKEN_BYTES,
        success_ttl_seconds=10,
        clock=clock,
        tasks=tasks,
        metrics=metrics,
    )
    yield Setup(reviewer, clock, tokens, registry)
    await tasks.stop()
    assert all(isinstance(failure, StatusError) for failure in failures)


async def test_a_token_is_its_owners(setup: Setup) -> None:
    assert (await setup.tokens.authenticate(b"good", address=ADDRESS)).caller.user == ALICE


async def test_a_yes_is_remembered_for_its_time_and_no_longer(setup: Setup) -> None:
    await setup.name_of(b"good")
    setup.clock.advance(9.9)
    await setup.name_of(b"good")
    assert setup.reviewer.asked == ["good"]

    setup.clock.advance(0.2)
    del setup.reviewer.owners["good"]

    with pytest.raises(Unauthorized):
        await setup.name_of(b"good")
    assert setup.reviewer.asked == ["good", "good"]


async def test_using_a_token_does_not_prolong_its_time(setup: Setup) -> None:
    for _ in range(6):
        await setup.name_of(b"good")
        setup.clock.advance(3)

    assert len(setup.reviewer.asked) == 2


async def test_a_remembered_token_is_answered_without_waiting(setup: Setup) -> None:
    await setup.name_of(b"good")

    with pytest.raises(StopIteration) as answered:
        setup.tokens.authenticate(b"good", address=ADDRESS).send(None)

    assert answered.value.value.caller.user == ALICE


async def test_token_is_still_its_caller_for_the_ttl_of_its_review(setup: Setup) -> None:
    result = await setup.tokens.authenticate(b"good", address=ADDRESS)
    assert result.recheck is not None

    setup.clock.advance(9.9)
    assert result.recheck()
    assert metric_values(setup.registry, LOOKUPS) == {"miss": 1, "hit": 1}

    setup.clock.advance(0.2)
    assert not result.recheck()
    assert setup.reviewer.asked == ["good"]
    assert metric_values(setup.registry, LOOKUPS) == {"miss": 1, "hit": 1}


async def test_token_that_was_reviewed_again_is_authenticated_again(setup: Setup) -> None:
    result = await setup.tokens.authenticate(b"good", address=ADDRESS)
    assert result.recheck is not None

    setup.clock.advance(10.1)
    setup.reviewer.owners["good"] = UserInfo("dora")
    await setup.name_of(b"good")

    assert not result.recheck()


async def test_a_no_is_remembered_for_two_seconds(setup: Setup) -> None:
    for seconds in (0, 1.9):
        setup.clock.advance(seconds)
        with pytest.raises(Unauthorized):
            await setup.name_of(b"bad")
    assert setup.reviewer.asked == ["bad"]

    setup.clock.advance(0.2)
    setup.reviewer.owners["bad"] = ALICE

    assert await setup.name_of(b"bad") == "alice"


async def test_a_no_that_is_not_definite_is_not_remembered(setup: Setup) -> None:
    setup.reviewer.doubtful.add("good")
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await setup.name_of(b"good")
    assert setup.reviewer.asked == ["good", "good"]

    setup.reviewer.doubtful.clear()

    assert await setup.name_of(b"good") == "alice"


async def test_no_answer_is_neither_a_no_nor_remembered(setup: Setup) -> None:
    setup.reviewer.is_reachable = False
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable) as refused:
            await setup.name_of(b"good")
        assert refused.value.code == 503
    assert setup.reviewer.asked == ["good", "good"]

    setup.reviewer.is_reachable = True

    assert await setup.name_of(b"good") == "alice"


async def test_a_remembered_yes_outlasts_an_outage_until_its_time(setup: Setup) -> None:
    await setup.name_of(b"good")
    setup.reviewer.is_reachable = False
    setup.clock.advance(9)
    assert await setup.name_of(b"good") == "alice"

    setup.clock.advance(2)

    with pytest.raises(UpstreamUnavailable):
        await setup.name_of(b"good")


async def test_a_thousand_at_once_are_one_question(setup: Setup) -> None:
    setup.reviewer.gate.clear()
    async with asyncio.TaskGroup() as group:
        names = [group.create_task(setup.name_of(b"good")) for _ in range(1000)]
        await eventually(lambda: setup.reviewer.asked)
        setup.reviewer.gate.set()

    assert {name.result() for name in names} == {"alice"}
    assert setup.reviewer.asked == ["good"]


async def test_a_failure_is_told_to_all_who_asked_together(setup: Setup) -> None:
    setup.reviewer.gate.clear()
    setup.reviewer.is_reachable = False
    asking = [asyncio.ensure_future(setup.name_of(b"good")) for _ in range(10)]
    await eventually(lambda: setup.reviewer.asked)

    setup.reviewer.gate.set()

    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(answer) for answer in answers} == {UpstreamUnavailable}
    assert setup.reviewer.asked == ["good"]


async def test_different_tokens_never_share_an_answer(setup: Setup) -> None:
    setup.reviewer.owners["other"] = UserInfo("bob")
    setup.reviewer.gate.clear()
    async with asyncio.TaskGroup() as group:
        good = group.create_task(setup.name_of(b"good"))
        other = group.create_task(setup.name_of(b"other"))
        await eventually(lambda: len(setup.reviewer.asked) == 2)
        setup.reviewer.gate.set()

    assert (good.result(), other.result()) == ("alice", "bob")
    assert (await setup.name_of(b"good"), await setup.name_of(b"other")) == ("alice", "bob")


async def test_a_client_that_leaves_does_not_spoil_the_question_for_others(setup: Setup) -> None:
    setup.reviewer.gate.clear()
    leaver = asyncio.ensure_future(setup.name_of(b"good"))
    stayer = asyncio.ensure_future(setup.name_of(b"good"))
    await eventually(lambda: setup.reviewer.asked)

    leaver.cancel()
    await asyncio.wait([leaver])
    setup.reviewer.gate.set()

    assert leaver.cancelled()
    assert await stayer == "alice"
    assert setup.reviewer.asked == ["good"]


@pytest.mark.parametrize("token", [b"\xff\xfe", "caf\u00e9".encode()])
async def test_a_token_that_is_not_ascii_is_nobodys_and_never_asked_about(
    setup: Setup, token: bytes
) -> None:
    with pytest.raises(Unauthorized):
        await setup.name_of(token)

    assert setup.reviewer.asked == []


async def test_tokens_are_not_kept(setup: Setup) -> None:
    await setup.name_of(b"good")
    with pytest.raises(Unauthorized):
        await setup.name_of(b"canary")

    kept = str({name: value for name, value in vars(setup.tokens).items() if name != "_queue"})
    assert "canary" not in kept
    assert "good" not in kept


async def test_what_is_remembered_of_unknown_tokens_is_bounded(
    setup: Setup,
) -> None:
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await setup.name_of(b"guess-%d" % number)
        setup.clock.advance(1)

    assert len(setup.tokens._rejected) <= 2
    assert len(setup.tokens._callers) == 0
    assert setup.tokens._in_flight == {}


async def test_one_token_too_many_is_told_so_and_a_remembered_one_is_not(setup: Setup) -> None:
    await setup.name_of(b"good")
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await setup.name_of(b"guess-%d" % number)

    with pytest.raises(TooManyRequests) as refused:
        await setup.name_of(b"one more")

    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert "one more" not in setup.reviewer.asked
    assert await setup.name_of(b"good") == "alice"


async def test_another_address_may_still_bring_tokens(setup: Setup) -> None:
    for number in range(BURST):
        with pytest.raises(Unauthorized):
            await setup.name_of(b"guess-%d" % number)

    assert (await setup.tokens.authenticate(b"good", address="192.0.2.2")).caller.user == ALICE


async def test_f3_a_token_above_the_limit_is_refused_without_a_review(setup: Setup) -> None:
    setup.reviewer.owners["x" * TOKEN_BYTES] = ALICE
    assert await setup.name_of(b"x" * TOKEN_BYTES) == "alice"

    with pytest.raises(TokenTooLarge) as refused:
        await setup.name_of(b"x" * (TOKEN_BYTES + 1))

    assert (refused.value.code, refused.value.reason) == (431, "RequestHeaderFieldsTooLarge")
    assert str(TOKEN_BYTES) in refused.value.message
    assert setup.reviewer.asked == ["x" * TOKEN_BYTES]


async def test_f3_a_review_that_no_request_waits_for_is_given_up_before_its_turn(
    setup: Setup,
) -> None:
    setup.reviewer.gate.clear()
    first = [asyncio.ensure_future(setup.name_of(b"guess-%d" % one)) for one in range(TURNS)]
    await eventually(lambda: len(setup.reviewer.asked) == TURNS)
    left = asyncio.ensure_future(setup.name_of(b"left"))
    shared = [asyncio.ensure_future(setup.name_of(b"good")) for _ in range(2)]
    await eventually(lambda: len(setup.tokens._in_flight) == TURNS + 2)

    # One of two waits on, and those whose turn has come are asked to the end.
    for request in (left, shared[0], first[0]):
        request.cancel()
    await eventually(lambda: len(setup.tokens._in_flight) == TURNS + 1)
    again = asyncio.ensure_future(setup.name_of(b"left"))
    setup.reviewer.gate.set()

    assert await shared[1] == "alice"
    with pytest.raises(Unauthorized):
        await again
    assert setup.reviewer.asked.count("left") == 1
    await asyncio.wait(first)
    assert setup.tokens._in_flight == {}
