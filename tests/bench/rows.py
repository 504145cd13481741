"""Rows for tests: of nothing but what the test says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.contestants import Contestant, Entry
from bench.measurement import Measurement
from bench.row import Effort, Pair, Row, Scene, Side, Turn
from bench.turns import RowResult, play


@contextmanager
def start_nothing(entry: Entry, _: object) -> Iterator[Contestant]:
    yield Contestant(entry, "127.0.0.1:1", None)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def entry(name: str, *, is_ours: bool = False) -> Entry:
    return Entry(name, f"the one called {name}", start_nothing, is_proxy=is_ours)


SCENE = Scene("nowhere", _nothing, (entry("go"), entry("peer"), entry("us", is_ours=True)))


def measure_name(contestant: Contestant, _: object, turn: Turn) -> Measurement:
    return Measurement(cost=float(len(contestant.name + turn.variant)), requests=1)


def row(*pairs: Pair, name: str = "work") -> Row:
    effort = Effort(rounds=1, seconds=0.1)
    return Row(name, "some work", "us", SCENE, pairs, measure_name, quick=effort, full=effort)


def pair(side: str, base: str | None, *, is_aside: bool = False) -> Pair:
    return Pair(Side(side), None if base is None else Side(base), is_aside)


def played(costs: Mapping[str, float], *pairs: Pair, name: str = "work") -> RowResult:
    """Return one round in which everybody had these costs."""

    def measure(side: Side) -> Measurement:
        return Measurement(cost=costs[side.label], requests=1, extra={"own": 7.0})

    return play(row(*pairs, name=name), 1, measure)
