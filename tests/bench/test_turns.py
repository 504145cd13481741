"""Who has a turn when, and who is compared with whom."""

from collections.abc import Iterator

import pytest

from bench.measurement import Measurement
from bench.ratios import Spread
from bench.row import Pair, Side
from bench.turns import RowResult, play
from tests.bench.rows import pair, row


def _order(*pairs: Pair, rounds: int = 1) -> list[str]:
    done = play(row(*pairs), rounds, lambda _: Measurement(cost=1.0, requests=1))
    return [side.label for side, _ in done.turns]


def _with_costs(costs: list[float], *pairs: Pair, rounds: int) -> RowResult:
    coming: Iterator[float] = iter(costs)
    return play(row(*pairs), rounds, lambda _: Measurement(cost=next(coming), requests=1))


def test_a_turn_that_has_just_been_serves_the_next_pair_too() -> None:
    pairs = pair("us", "go"), pair("us", "peer"), pair("audited", "us")

    assert _order(*pairs) == ["go", "us", "peer", "us", "audited"]


def test_whoever_the_next_pair_needs_comes_last() -> None:
    assert _order(pair("a", "go"), pair("b", "go")) == ["a", "go", "b"]


def test_every_second_round_goes_backwards() -> None:
    pairs = pair("us", "go"), pair("other", "peer")

    assert _order(*pairs, rounds=2) == ["go", "us", "peer", "other", "peer", "go", "us"]


@pytest.mark.parametrize(("rounds", "turns"), [(1, 1), (3, 1), (6, 1), (8, 2), (12, 3)])
def test_what_is_for_the_picture_only_has_a_turn_in_every_fourth_round(
    rounds: int, turns: int
) -> None:
    order = _order(pair("us", "go"), pair("a", None, is_aside=True), rounds=rounds)

    assert order.count("a") == turns


def test_only_neighbours_are_compared() -> None:
    done = _with_costs([10, 5, 20, 40], pair("us", "go"), pair("other", "peer"), rounds=1)

    assert done.ratio("us", "go") == Spread(0.5, 0.5, 0.5)
    assert done.ratio("other", "peer") == Spread(2, 2, 2)
    assert done.ratio("us", "peer") is None


def test_a_ratio_is_the_median_of_all_pairs() -> None:
    done = _with_costs([20, 10, 100, 30], pair("us", "go"), rounds=3)

    # go 20, us 10, go 100, us 30
    assert [side.label for side, _ in done.turns] == ["go", "us", "go", "us"]
    assert done.ratio("us", "go") == Spread(0.3, 0.1, 0.5)
    assert done.added("us", "go") == Spread(-70, -90, -10)


def test_the_same_contestant_under_two_conditions_is_a_pair() -> None:
    many, alone = Side("us", "many"), Side("us", "alone")

    done = _with_costs([10, 11], Pair(many, alone), rounds=1)

    ratio = done.ratio("us [many]", "us [alone]")
    assert ratio is not None
    assert ratio.median == pytest.approx(1.1)


def test_who_has_no_such_figure_has_no_ratio() -> None:
    done = play(row(pair("us", "go")), 1, lambda _: Measurement(cost=None, requests=1))

    assert done.ratio("us", "go") is None
    assert done.spread("us") is None
