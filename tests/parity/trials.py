"""What was played: each case with what both sides made of it."""

from dataclasses import dataclass

from tests.parity.cases import Case
from tests.parity.observations import Observation
from tests.parity.renaming import Renaming
from tests.parity.scraping import Series


@dataclass(frozen=True, slots=True)
class Trial:
    """One case and what each side made of it."""

    case: Case
    reference: Observation
    subject: Observation


@dataclass(frozen=True, slots=True)
class Played:
    """A set of cases that was played. The series grew so much during its steady part."""

    renaming: Renaming
    trials: tuple[Trial, ...]
    reference_series: Series
    subject_series: Series
    steady_count: int
    is_late: bool

    def steady_cases(self) -> tuple[Case, ...]:
        """Return the cases during which the series were read."""
        return tuple(trial.case for trial in self.trials[: self.steady_count])
