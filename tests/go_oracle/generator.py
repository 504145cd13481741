"""Seeded runs of odd requests: the same seed makes the same cases on every machine."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tests.go_oracle.callers import ALL_YES, make_headers, make_requestor, make_script
from tests.go_oracle.cases import Sequence, Step
from tests.go_oracle.deviations import may_deviate
from tests.go_oracle.follow_ups import change_selector, make_follow_up
from tests.go_oracle.odd_heads import make_odd_lines, make_version
from tests.go_oracle.targets import make_target

_METHODS = (
    *(b"GET",) * 12,
    *(b"POST", b"PUT", b"PATCH", b"DELETE", b"DELETE", b"HEAD", b"OPTIONS"),
)
_STRANGE_METHODS = (b"get", b"FOO", b"TRACE", b"Post", b"WATCH", b"CONNECT", b"PROPFIND", b"G!T")


def make_sequences(seed: int, cases: int) -> Iterator[Sequence]:
    """Yield sequences that hold exactly that many requests together."""
    random = Random(seed)  # not a secret: the seed is printed so that a run can be repeated
    while cases > 0:
        sequence = _make_sequence(random, min(cases, random.choice((1, 1, 1, 1, 2, 3, 4))))
        yield sequence
        cases -= len(sequence.steps)


def _make_sequence(random: Random, most: int) -> Sequence:
    """Return a sequence that ends with the first request on which the sides mean to differ.

    Native goes on with such a request and remembers what came of it; from there on the two sides
    have different pasts.
    """
    first = _make_step(random)
    if most > 1 and random.random() < 0.2:
        first = change_selector(random, first)
    if most > 1 and random.random() < 0.5:
        first = replace(first, script=ALL_YES)
    steps = [first]
    protects_masters = random.random() < 0.05
    while len(steps) < most and not protects_masters and not may_deviate(steps[-1]):
        steps.append(make_follow_up(random, random.choice(steps)))
    return Sequence(
        constrained=random.random() < 0.8, steps=tuple(steps), protects_masters=protects_masters
    )


def _make_step(random: Random) -> Step:
    requestor = make_requestor(random)
    step = Step(
        method=random.choice(_METHODS if random.random() < 0.97 else _STRANGE_METHODS),
        target=make_target(random),
        headers=make_headers(random, requestor),
        requestor=requestor,
        script=make_script(random),
    )
    kind = random.random()
    if kind < 0.03:
        return replace(step, odd_lines=make_odd_lines(random))
    return replace(step, version=make_version(random)) if kind < 0.035 else step
