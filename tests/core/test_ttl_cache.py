"""What is remembered, for how long, and how much of it."""

from proxy.core.ttl_cache import TTLCache
from tests.support.clock import FakeClock


def memory(clock: FakeClock, *, most: int = 3, ttl_seconds: float = 10.0) -> TTLCache[str, int]:
    return TTLCache(most, ttl_seconds, clock)


def test_what_was_learned_is_known_until_its_life_ends() -> None:
    clock = FakeClock()
    short = memory(clock)
    short.put("a", 1)

    clock.advance(9.9)
    assert short.get("a") == 1
    clock.advance(0.1)
    assert short.get("a") is None


def test_nothing_is_known_that_was_not_learned() -> None:
    assert memory(FakeClock()).get("a") is None


def test_asking_does_not_lengthen_a_life_and_learning_again_does() -> None:
    clock = FakeClock()
    short = memory(clock)
    short.put("asked", 1)
    short.put("again", 1)
    clock.advance(6)
    short.get("asked")
    short.put("again", 2)
    clock.advance(6)

    assert short.get("asked") is None
    assert short.get("again") == 2


def test_the_one_learned_longest_ago_makes_room() -> None:
    short = memory(FakeClock())
    for key in ("a", "b", "c"):
        short.put(key, 1)
    short.put("a", 2)  # now the youngest
    short.put("d", 1)

    assert [key for key in "abcd" if short.get(key) is not None] == ["a", "c", "d"]
    assert len(short) == 3


def test_the_dead_are_cleared_away_when_something_is_learned() -> None:
    clock = FakeClock()
    short = memory(clock, most=1000)
    for number in range(100):
        short.put(str(number), number)
    clock.advance(10)
    short.put("new", 1)

    assert len(short) == 1


def test_a_life_of_no_time_keeps_nothing() -> None:
    short = memory(FakeClock(), ttl_seconds=0.0)
    short.put("a", 1)

    assert short.get("a") is None
    assert len(short) == 0
