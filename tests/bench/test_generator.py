"""Load generators are kept between turns, and not for longer."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.generator import Generator, Generators, start_generator
from bench.measurement import WrongAnswer

# Says that it is connected, and plays turns as it is told; the last word is for the end.
_PLAYING = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("ready", flush=True)
    next(sys.stdin)
    print('{"requests": 3, "seconds": 1, "p50Microseconds": 1, "p99Microseconds": 2}', flush=True)
"""
_FAILING = "import sys; print('ready', flush=True); next(sys.stdin); sys.exit('a wrong answer')"


def _start(code: str = _PLAYING) -> Generator:
    return start_generator([sys.executable, "-c", code], "somebody")


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def _generators(clock: _Clock) -> Iterator[Generators]:
    generators = Generators(clock)
    try:
        yield generators
    finally:
        generators.close()


def test_a_turn_tells_what_came_of_it_and_the_cpu_meanwhile() -> None:
    readings = iter([10.0, 12.5])
    with _generators(_Clock()) as generators:
        generator = generators.keep("get", "us", _start)

        told, used = generator.turn(lambda: next(readings))

    assert told["requests"] == 3
    assert used == 2.5


def test_a_generator_is_kept_for_the_next_turn_of_the_same_contestant() -> None:
    with _generators(_Clock()) as generators:
        first = generators.keep("get", "us", _start)

        assert generators.keep("get", "other", _start) is not first
        assert generators.keep("get", "us", _start) is first


def test_another_kind_of_load_ends_what_was_kept() -> None:
    with _generators(_Clock()) as generators:
        first = generators.keep("get", "us", _start)
        generators.keep("list", "us", _start)

        with pytest.raises(ValueError, match="closed"):
            first.start_phase()


def test_who_idled_for_long_is_connected_anew() -> None:
    clock = _Clock()
    with _generators(clock) as generators:
        first = generators.keep("get", "us", _start)
        clock.now = 29.0
        assert generators.keep("get", "us", _start) is first
        clock.now = 60.0

        assert generators.keep("get", "us", _start) is not first


def test_what_a_generator_says_at_its_end_is_told() -> None:
    with _generators(_Clock()) as generators:
        generator = generators.keep("get", "us", lambda: _start(_FAILING))

        with pytest.raises(WrongAnswer, match="somebody: a wrong answer"):
            generator.turn(lambda: 0.0)


def test_one_that_cannot_connect_leaves_nothing_behind() -> None:
    with pytest.raises(WrongAnswer, match="nobody there"):
        _start("import sys; sys.exit('nobody there')")
