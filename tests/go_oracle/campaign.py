"""A run of many cases against the oracle, and what came of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from tests.go_oracle.account import Account
from tests.go_oracle.cases import Sequence
from tests.go_oracle.comparison import Judgement, judge
from tests.go_oracle.generator import make_sequences
from tests.go_oracle.ours import play
from tests.go_oracle.shrinking import shrink
from tests.go_oracle.telling import tell
from tests.support.oracle import Oracle, Outcome

_BATCH = 200
_BATCHES_A_ROUND = 50
# 380 in the end: among three keys' six orders, one is missed with a chance of 1e-30.
_REPLAYS = (4, 8, 16, 32, 64, 128, 128)
_FEW_REPLAYS = (4, 8, 16, 32)
_ENOUGH_DISAGREEMENTS = 3

Player = Callable[[Sequence], list[Account]]


@dataclass(slots=True)
class Report:
    """`reproductions` tells each disagreement in its smallest form."""

    cases: int = 0
    disagreements: int = 0
    deviations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    reproductions: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Take another run's findings in."""
        self.cases += other.cases
        self.disagreements += other.disagreements
        self.deviations += other.deviations
        self.outcomes += other.outcomes
        self.reproductions += other.reproductions

    def __str__(self) -> str:
        letters = [f"{letter}={count}" for letter, count in sorted(self.deviations.items())]
        return (
            f"{self.cases} cases, {self.disagreements} disagreements"
            f" (deviations: {', '.join(letters) or 'none'})"
        )


def run_campaign(oracle: Oracle, *, seed: int, cases: int, player: Player = play) -> Report:
    """Put that many generated requests to both sides; stop early when enough is wrong."""
    campaign = _Campaign(oracle, player)
    batches = _grouped(make_sequences(seed, cases), _BATCH)
    while campaign.report.disagreements < _ENOUGH_DISAGREEMENTS:
        batch_round = list(islice(batches, _BATCHES_A_ROUND))
        if not batch_round:
            break
        for sequence in campaign.compare(batch_round):
            campaign.settle(sequence)
    return campaign.report


class _Campaign:
    """Both sides, and what is known so far."""

    def __init__(self, oracle: Oracle, player: Player) -> None:
        self.report = Report()
        self._oracle = oracle
        self._play = player

    def compare(self, batches: list[list[Sequence]]) -> list[Sequence]:
        """Return the sequences on which the sides differ at first sight.

        They wait until the round is over, because the oracle is busy with the next batch by then.
        """
        doubts: list[Sequence] = []
        report = self.report
        for batch, answered in self._oracle.ask_ahead(batches):
            for sequence, outcomes in zip(batch, answered, strict=True):
                judgements = _judge(sequence, outcomes, self._play(sequence))
                report.cases += len(judgements)
                report.deviations.update(one.deviation for one in judgements if one.deviation)
                report.outcomes.update(map(_outcome_name, outcomes))
                if any(one.difference for one in judgements):
                    doubts.append(sequence)
        return doubts

    def settle(self, sequence: Sequence) -> None:
        """Count and tell a disagreement, unless native does what we do when asked again."""
        enough = self.report.disagreements >= _ENOUGH_DISAGREEMENTS
        if enough or not self._is_wrong(sequence, _REPLAYS):
            return
        self.report.disagreements += 1
        smallest = shrink(sequence, lambda candidate: self._is_wrong(candidate, _FEW_REPLAYS))
        self.report.reproductions.append(self._reproduction(smallest))

    def _is_wrong(self, sequence: Sequence, replays: tuple[int, ...]) -> bool:
        """Tell whether native never does what we do.

        Native visits extra keys in random order, so it is asked again where there are several.
        Step for step is fair: the order decides what is asked and told, never what is allowed.
        """
        accounts = self._play(sequence)
        wrong = set(range(len(sequence.steps)))
        for count in replays if _has_several_extra_keys(sequence) else (1,):
            for outcomes in self._oracle.ask([sequence] * count, shuffle=True):
                judgements = _judge(sequence, outcomes, accounts)
                wrong -= {index for index, one in enumerate(judgements) if one.difference is None}
            if not wrong:
                return False
        return True

    def _reproduction(self, sequence: Sequence) -> str:
        lines = [f"constrained: {sequence.constrained}, protected: {sequence.protects_masters}"]
        [outcomes] = self._oracle.ask([sequence])
        judgements = _judge(sequence, outcomes, self._play(sequence))
        for step, judgement in zip(sequence.steps, judgements, strict=True):
            lines += [
                f"head: {step.head!r}",
                tell(step.requestor),
                tell(step.script),
                judgement.difference or "(agrees)",
            ]
        return "\n".join(lines)


def _grouped(sequences: Iterator[Sequence], size: int) -> Iterator[list[Sequence]]:
    while group := list(islice(sequences, size)):
        yield group


def _judge(sequence: Sequence, outcomes: list[Outcome], accounts: list[Account]) -> list[Judgement]:
    return [
        judge(sequence, step, outcome, account)
        for step, outcome, account in zip(sequence.steps, outcomes, accounts, strict=True)
    ]


def _outcome_name(outcome: Outcome) -> str:
    if outcome["status"] != 200:
        return str(outcome["status"])
    if not outcome["checks"]:
        return "remembered" if outcome["constraint"] else "passed"
    return outcome["constraint"] or "legacy"


def _has_several_extra_keys(sequence: Sequence) -> bool:
    return any(
        len({name.lower() for name, _ in step.headers if b"extra" in name.lower()}) > 1
        for step in sequence.steps
    )
