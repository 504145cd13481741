"""What is remembered, for how long, and how much of it."""

from proxy.core.ttl_cache import ShortMemory
from tests.support.clock import FakeClock


def memory(clock: FakeClock, *, most: int = 3, ttl_seconds: float = 10.0) -> ShortMemory[str, int]:
    return ShortMemory(most, ttl_seconds, clock)


def test_what_was_learned_is_known_until_its_life_ends() -> None:
    clock = FakeClock()
    short = memory(clock)
    short.learn("a", 1)

    clock.advance(9.9)
    assert short.recall("a") == 1
    clock.advance(0.1)
    assert short.recall("a") is None


def test_nothing_is_known_that_was_not_learned() -> None:
    assert memory(FakeClock()).recall("a") is None


def test_asking_does_not_lengthen_a_life_and_learning_again_does() -> None:
    clock = FakeClock()
    short = memory(clock)
    short.learn("asked", 1)
    short.learn("again", 1)
    clock.advance(6)
    short.recall("asked")
    short.learn("again", 2)
    clock.advance(6)

    assert short.recall("asked") is None
    assert short.recall("again") == 2


def test_the_one_learned_longest_ago_makes_room() -> None:
    short = memory(FakeClock())
    for key in ("a", "b", "c"):
        short.learn(key, 1)
    short.learn("a", 2)  # now the youngest
    short.learn("d", 1)

    assert [key for key in "abcd" if short.recall(key) is not None] == ["a", "c", "d"]
    assert len(short) == 3


def test_the_dead_are_cleared_away_when_something_is_learned() -> None:
    clock = FakeClock()
    short = memory(clock, most=1000)
    for number in range(100):
        short.learn(str(number), number)
    clock.advance(10)
    short.learn("new", 1)

    assert len(short) == 1


def test_a_life_of_no_time_keeps_nothing() -> None:
    short = memory(FakeClock(), ttl_seconds=0.0)
    short.learn("a", 1)

    assert short.recall("a") is None
    assert len(short) == 0


def test_all_can_be_forgotten() -> None:
    short = memory(FakeClock())
    short.learn("a", 1)
    short.forget_all()

    assert short.recall("a") is None
