"""The decision rows count what a decision waits for, and take no answer on trust."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.bars import BARS, BarResult, below
from bench.contestants import Contestant, Entry
from bench.control_plane import CONTROL_PLANE, counter_total
from bench.measurement import WrongAnswer
from bench.ratios import Spread
from bench.round_trips import Rounds, most_in_one_mode, review_mode
from bench.rows import decisions
from bench.walking import LoadTarget, PersistentGenerator, quiet_mean

HOLD_SECONDS = 0.02
ON_LIST, BE_ALICE, STAR = (
    "impersonate-on:user-info:list",
    "impersonate:user-info",
    "impersonate:user-info",
)


@pytest.mark.parametrize(
    ("verb", "mode"),
    [
        ("impersonate", "legacy"),
        ("impersonate:user-info", "user-info"),
        ("impersonate-on:user-info:get", "user-info"),
        ("impersonate-on:arbitrary-node:list", "arbitrary-node"),
    ],
)
def test_every_check_belongs_to_a_mode(verb: str, mode: str) -> None:
    assert review_mode(verb) == mode


async def test_what_is_asked_together_is_one_round_trip() -> None:
    rounds = Rounds(HOLD_SECONDS)

    await rounds.join("bob", ON_LIST)
    await asyncio.gather(rounds.join("bob", BE_ALICE), rounds.join("bob", STAR))

    assert rounds.take("bob") == [Counter({"user-info": 1}), Counter({"user-info": 2})]


async def test_what_waits_for_an_answer_is_another_round_trip() -> None:
    rounds = Rounds(HOLD_SECONDS)

    for _ in range(4):
        await rounds.join("bob", BE_ALICE)

    assert len(rounds.take("bob")) == 4


async def test_questions_about_others_are_not_counted() -> None:
    rounds = Rounds(HOLD_SECONDS)

    await rounds.join("canary", "get")

    assert rounds.take("bob") == []


def test_round_trips_are_told_for_the_mode_that_took_most() -> None:
    rounds = [Counter({"user-info": 1}), Counter({"legacy": 2}), Counter({"legacy": 9})]

    assert most_in_one_mode(rounds) == 2
    assert most_in_one_mode([]) == 0


def test_only_the_cheapest_quarter_of_the_steps_counts() -> None:
    assert quiet_mean([90, 10, 80, 12, 70, 60, 50, 99]) == 11
    assert quiet_mean([7]) == 7


def test_a_counter_is_added_up_over_its_series() -> None:
    page = '# HELP a b\na{c="hit"} 2\na{c="miss"} 3e+0\nab 5\na_total 7\n'

    assert counter_total(page, "a") == 5
    assert counter_total(page, "a", 'c="hit"') == 2
    assert counter_total(page, "nothing") == 0


def test_less_than_native_may_be_less_than_nothing() -> None:
    bar = below("cached-decision", "us [user]", "native [user]")

    assert str(bar) == "us [user] below native [user]"
    assert BarResult(bar, Spread(-0.5, -9, 9)).is_met
    assert not BarResult(bar, Spread(0.0, -9, 9)).is_met
    assert not BarResult(bar, None).is_met


def test_every_decision_row_has_a_bar_for_each_of_ours() -> None:
    for row in decisions.ROWS:
        ours = {pair.side.label for pair in row.pairs}

        assert {bar.side for bar in BARS if bar.row == row.name} == ours


@pytest.mark.parametrize(
    ("decided", "asked", "is_right"),
    [
        pytest.param(100, 3, True, id="from memory"),
        pytest.param(80, 3, False, id="some without a decision"),
        pytest.param(100, 90, False, id="asked again and again"),
    ],
)
def test_decisions_that_are_not_from_memory_fail_the_run(
    decided: int, asked: int, *, is_right: bool
) -> None:
    entry: Entry = CONTROL_PLANE.entries[1]
    us = Contestant(entry, "127.0.0.1:1", 1)

    def check() -> None:
        decisions.check_memory(us, now=(decided, asked + 3), before=(0, 3), requests=100)

    if is_right:
        check()
    else:
        with pytest.raises(WrongAnswer, match="100 requests"):
            check()


def test_a_load_that_gets_no_answer_fails_the_run(tmp_path: Path) -> None:
    program = tmp_path / "load"
    program.write_text("#!/bin/sh\necho nobody listens >&2\nexit 1\n")
    program.chmod(0o700)
    way = LoadTarget(
        address="127.0.0.1:1",
        authority_file=tmp_path,
        token_file=tmp_path,
        connections=1,
        target="/version",
    )

    with pytest.raises(WrongAnswer, match="nobody listens"):
        PersistentGenerator(program, way)


@pytest.mark.e2e
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("binaries")
def test_a_run_tells_round_trips_beside_the_native_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--rounds=1", "--seconds=0.2", f"--results={tmp_path}"]

    main([*arguments, "--only", "cold-decision", "cached-decision"])

    told = capsys.readouterr().out
    assert "bar met     us [10 groups] round trips a mode <= 2: 2.00" in told
    # The star check is denied there: asked for, answered, and only then each group by itself.
    assert "us [100 by name]: round trips a mode 3.0" in told
    assert "us [legacy, 10 groups]: round trips a mode 1.0 (1.0-1.0), round trips 2.0" in told
    # Here only that something was measured: which of the two is lower, a busy machine cannot tell.
    assert "us [100 groups] below native [100 groups]" in told
    assert "not measured" not in told
