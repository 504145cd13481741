"""Seeded sets of cases: the same seed makes the same plan on every machine."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from random import Random

from tests.parity.callers import make_callers
from tests.parity.cases import Caller, CallerKind, Case, CaseSet, Half
from tests.parity.deviations import is_remembered_alike
from tests.parity.renaming import FRESH
from tests.parity.requests import make_request
from tests.parity.rights import make_rights
from tests.parity.tour import make_tour
from tests.parity.wanted import make_headers

SET_SIZE = 150
_RIGHTS_A_SET = 3


def make_sets(seed: int, half: Half, cases: int) -> Iterator[CaseSet]:
    """Yield sets of exactly that many cases together: first the tour, then what chance brings."""
    left = cases
    for planned in chain(make_tour(half), _invented(seed, half)):
        yield arrange(planned[:left], half)
        left -= len(planned)
        if left <= 0:
            return


def arrange(planned: Sequence[Case], half: Half) -> CaseSet:
    """Put cases that leave the sides with different memories last, each with its own caller."""
    steady = [case for case in planned if is_remembered_alike(case)]
    lonely = [case for case in planned if not is_remembered_alike(case)]
    return CaseSet(
        half,
        tuple(steady),
        tuple(_alone(case, number) for number, case in enumerate(lonely)),
    )


def _alone(case: Case, number: int) -> Case:
    caller = case.caller
    if caller.kind is not CallerKind.CERTIFICATE:
        # Callers of other kinds are few; a user with the same rights will do.
        caller = Caller(f"lone-{FRESH}", rights=caller.rights)
    return replace(case, caller=replace(caller, name=f"{caller.name}-{number}"))


def _invented(seed: int, half: Half) -> Iterator[list[Case]]:
    for number in count():
        # Not a secret: whoever repeats the run needs it.
        yield _invent(Random(f"{seed}/{half}/{number}"), half)


def _invent(random: Random, half: Half) -> list[Case]:
    rights = [make_rights(random, half) for _ in range(_RIGHTS_A_SET)]
    callers = make_callers(random, rights)
    cases: list[Case] = []
    while len(cases) < SET_SIZE:
        caller = random.choice(callers)
        if cases and random.random() < 0.35:
            cases.append(_follow_up(random, random.choice(cases), caller))
        else:
            cases.append(_make_case(random, caller))
    return cases


def _make_case(random: Random, caller: Caller) -> Case:
    request = make_request(random)
    headers = (*make_headers(random), *request.headers)
    return Case(caller, request.method, request.target, headers, request.body)


def _follow_up(random: Random, earlier: Case, caller: Caller) -> Case:
    """Return a case that an earlier one may have opened a door for: in part the same."""
    fresh = _make_case(random, caller)
    kind = random.random()
    if kind < 0.3:
        return earlier
    if kind < 0.5:
        return replace(earlier, caller=caller)
    if kind < 0.8:
        return replace(fresh, caller=earlier.caller, headers=earlier.headers)
    return replace(earlier, headers=fresh.headers)
