"""Who takes part, as it was asked for."""

from pathlib import Path

from bench.cast import Selection
from bench.measurement import Measurement
from bench.row import Pair, Row, Side
from bench.run import Extent, run
from tests.bench.rows import SCENE, pair, row

WORK = row(pair("us", "go"), pair("peer", "go"), pair("us", "absent"))


def _pairs(found: Row) -> list[tuple[str, ...]]:
    return [tuple(side.label for side in one.sides()) for one in found.pairs]


def test_who_is_not_there_is_left_out_and_named() -> None:
    cast = Selection()

    assert _pairs(cast.row(WORK)) == [("go", "us"), ("go", "peer")]
    assert cast.missing([WORK]) == ["absent"]


def test_only_pairs_of_those_who_were_chosen_are_played() -> None:
    cast = Selection(frozenset({"us", "go"}))

    assert _pairs(cast.row(WORK)) == [("go", "us")]
    assert cast.missing([WORK]) == []


def test_who_has_lost_all_others_plays_alone() -> None:
    assert _pairs(Selection(frozenset({"us"})).row(WORK)) == [("us",)]


def test_ours_is_compared_with_itself_in_another_checkout(tmp_path: Path) -> None:
    many = row(pair("us", "go"), Pair(Side("us", "many"), Side("us")))

    cast = Selection(beside=tmp_path)

    assert _pairs(cast.row(many))[2:] == [("other us", "us"), ("other us [many]", "us [many]")]
    assert cast.entries(SCENE)["other us"].checkout == tmp_path
    assert cast.entries(SCENE)["us"].checkout is None


def test_only_ours_is_run_from_other_code(tmp_path: Path) -> None:
    entries = Selection(code=tmp_path).entries(SCENE)

    assert entries["us"].checkout == tmp_path
    assert entries["go"].checkout is None


def test_a_run_plays_every_row_and_tells_every_turn() -> None:
    told: list[str] = []

    def tell(played: Row, side: Side, found: Measurement) -> None:
        told.append(f"{played.name} {side.label} {found.cost}")

    rows = [row(pair("us", "go")), row(Pair(Side("us", "many")), name="many")]

    done = list(run(rows, Selection(), Extent(rounds=1), tell))

    assert [one.row.name for one in done] == ["work", "many"]
    assert told == ["work go 2.0", "work us 2.0", "many us [many] 6.0"]


def test_effort_is_the_rows_unless_told() -> None:
    assert Extent(is_quick=True).of(WORK) == WORK.quick
    assert Extent(rounds=9).of(WORK).rounds == 9
    assert Extent(seconds=9).of(WORK).seconds == 9
