"""A whole run: both halves, set by set, and what came of it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from proxy.sandbox.programs.binaries import Binaries
from tests.parity.arena import Arena, Variant, running_stage
from tests.parity.cases import CaseSet, Half
from tests.parity.comparison import Judgement
from tests.parity.coverage import Coverage
from tests.parity.generator import SET_SIZE, make_sets
from tests.parity.play import play_in_time
from tests.parity.settling import Settler
from tests.parity.trials import Played

Announce = Callable[[str], None]

_ENOUGH_REPRODUCTIONS = 5
_ENOUGH_DIFFERENCES = 50
_SPARE_TOKEN_USERS = 500


@dataclass(slots=True)
class Report:
    """`reproductions` tell the first differences, each in its smallest form."""

    coverage: Coverage
    cases: int = 0
    differences: int = 0
    deviations: Counter[str] = field(default_factory=Counter)
    reproductions: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing differs and nothing was left out."""
        return self.differences == 0 and not self.coverage.missing()


def run_campaign(
    binaries: Binaries, variant: Variant, *, seed: int, cases: int, announce: Announce
) -> Report:
    """Play that many cases, half of them with each authorizer."""
    report = Report(Coverage(variant.gate))
    token_users = cases // SET_SIZE + _SPARE_TOKEN_USERS
    with running_stage(binaries, token_users=token_users) as stage:
        for half, share in ((Half.RBAC, cases - cases // 2), (Half.WEBHOOK, cases // 2)):
            with stage.arena(half, variant) as arena:
                announce(f"{half}: {arena.subject.name} against {arena.reference.name}")
                sets = make_sets(seed, half, share)
                Campaign(arena, report, announce).run(sets)
    return report


class Campaign:
    """The sets of one half against one pair of sides."""

    def __init__(self, arena: Arena, report: Report, announce: Announce) -> None:
        self._arena = arena
        self._report = report
        self._announce = announce
        self._judge = arena.judge()
        self._settler = Settler(arena, self._judge)

    def run(self, sets: Iterator[CaseSet]) -> None:
        """Play all sets; stop early when enough is wrong."""
        started = time.monotonic()
        before = self._report.cases
        for case_set in sets:
            for played in play_in_time(self._arena, case_set):
                self._compare(played)
            if self._report.differences >= _ENOUGH_DIFFERENCES:
                self._announce("enough differences, stopping early")
                return
        done = self._report.cases - before
        seconds = time.monotonic() - started
        self._announce(
            f"{self._arena.half}: {done} cases in {seconds:.0f} s, {done / seconds:.0f} a second"
        )

    def _compare(self, played: Played) -> None:
        report = self._report
        for index, (trial, judgement) in enumerate(self._judge.judge_all(played)):
            report.cases += 1
            report.coverage.add(self._arena.half, trial, played.renaming)
            if judgement.deviation:
                report.deviations[judgement.deviation] += 1
            if judgement.kinds and not self._settler.is_chance(trial.case):
                self._note(played, index, judgement)
        counted = self._judge.judge_series(played)
        if counted.kinds:
            self._note_count(played, counted)

    def _note(self, played: Played, index: int, judgement: Judgement) -> None:
        self._report.differences += 1
        if len(self._report.reproductions) < _ENOUGH_REPRODUCTIONS:
            cases = [trial.case for trial in played.trials[: index + 1]]
            told = self._settler.reproduce(cases, judgement.kinds)
            self._report.reproductions.append(f"{told}\n  first seen as\n{judgement}")

    def _note_count(self, played: Played, counted: Judgement) -> None:
        self._report.differences += 1
        if len(self._report.reproductions) < _ENOUGH_REPRODUCTIONS:
            told = self._settler.reproduce_count(played.steady_cases(), counted.kinds)
            self._report.reproductions.append(f"{told}\n  first counted as\n{counted}")
