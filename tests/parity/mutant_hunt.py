"""Does the run find what is wrong? Each mistake of `mutants` must show as a difference."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from proxy.sandbox.programs.binaries import Binaries
from tests.parity.arena import Arena, Variant, running_stage
from tests.parity.campaign import Announce
from tests.parity.cases import CaseSet, Half
from tests.parity.deviations import has_several_extra_keys
from tests.parity.generator import make_sets
from tests.parity.mutants import MUTANTS
from tests.parity.play import play_in_time
from tests.parity.trials import Played

_SETS_A_MISTAKE = 4
_TOKEN_USERS = 1000


@dataclass(slots=True)
class Hunt:
    """`found` tells by what each mistake gave itself away."""

    found: dict[str, str] = field(default_factory=dict)
    disturbance: str | None = None
    """A difference without any mistake, which makes every find worthless."""

    @property
    def missed(self) -> list[str]:
        """The mistakes that went unnoticed."""
        return [name for name in MUTANTS if name not in self.found]


def hunt_mutants(binaries: Binaries, *, seed: int, announce: Announce) -> Hunt:
    """Look for each mistake in the half where chance allows it, then in the other."""
    hunt = Hunt()
    with running_stage(binaries, token_users=_TOKEN_USERS) as stage:
        for half in Half:
            with stage.arena(half, Variant()) as arena:
                hunt.disturbance = hunt.disturbance or _first_difference(arena, seed)
                for mistake in hunt.missed:
                    assert arena.proxy is not None
                    arena.proxy.restart_with_mistake(mistake)
                    trace = _first_difference(arena, seed)
                    if trace is not None:
                        hunt.found[mistake] = f"{half}: {trace}"
                        announce(f"{mistake}: found")
    return hunt


def _first_difference(arena: Arena, seed: int) -> str | None:
    for case_set in islice(_sets(arena.half, seed), _SETS_A_MISTAKE):
        for played in play_in_time(arena, case_set):
            trace = _difference_in(arena, played)
            if trace is not None:
                return trace
    return None


def _sets(half: Half, seed: int) -> Iterator[CaseSet]:
    return make_sets(seed, half, 1_000_000)


def _difference_in(arena: Arena, played: Played) -> str | None:
    judge = arena.judge()
    for trial, judgement in judge.judge_all(played):
        # Where native itself is of two minds, a difference proves nothing.
        if judgement.kinds and not has_several_extra_keys(trial.case):
            request = f"{trial.case.method.decode()} {trial.case.target.decode(errors='replace')}"
            return f"{', '.join(sorted(judgement.kinds))} of {request}"
    counted = judge.judge_series(played)
    return f"counts: {', '.join(sorted(counted.kinds))}" if counted.kinds else None
