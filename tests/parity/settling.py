"""From a difference to its smallest form: replayed on fresh names until nothing can be left out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.parity.arena import Arena
from tests.parity.cases import Case, CaseSet, Half
from tests.parity.comparison import Judge, Judgement
from tests.parity.deviations import has_several_extra_keys, is_remembered_alike
from tests.parity.play import play

_COPIES = 8
_ROUNDS = 6
_MOST_REPLAYS = 80


class Settler:
    """Plays cases again, as often as it takes to be sure and to be brief."""

    def __init__(self, arena: Arena, judge: Judge) -> None:
        self._arena = arena
        self._judge = judge
        self._replays = 0

    def is_chance(self, case: Case) -> bool:
        """Tell whether native does now and then what the subject did.

        It visits extra keys in random order, so it is asked again where there are several.
        """
        if not has_several_extra_keys(case):
            return False
        copies = tuple(
            replace(case, caller=replace(case.caller, name=f"{case.caller.name}-{number}"))
            for number in range(_COPIES)
        )
        for _ in range(_ROUNDS):
            played = play(self._arena, CaseSet(self._arena.half, (), copies))
            if not all(self._judge.judge(trial).kinds for trial in played.trials):
                return True
        return False

    def reproduce(self, cases: Sequence[Case], kinds: frozenset[str]) -> str:
        """Return the smallest sequence like this one whose last case still differs, told in full.

        `cases` are those that were played, up to the one that differed in these ways.
        """
        self._replays = 0
        last = cases[-1]
        candidates: list[tuple[Case, ...]] = [(last,)]
        if is_remembered_alike(last):
            candidates.append(tuple(case for case in cases if case.caller == last.caller))
            candidates.append(tuple(cases))
        for candidate in candidates:
            if self._replay(candidate).kinds & kinds:
                return self._tell(self._shrink(candidate, kinds))
        return f"{_describe(last, self._arena.half)}\n  (did not happen again when replayed)"

    def reproduce_count(self, cases: Sequence[Case], kinds: frozenset[str]) -> str:
        """Return the same for cases after which the two sides have counted differently."""
        if not self._counts(cases).kinds & kinds:
            return "(did not happen again when replayed)"
        shortest, longest = 0, len(cases)
        while longest - shortest > 1:
            middle = (shortest + longest) // 2
            if self._counts(cases[:middle]).kinds & kinds:
                longest = middle
            else:
                shortest = middle
        return self.reproduce(cases[:longest], kinds)

    def _shrink(self, cases: tuple[Case, ...], kinds: frozenset[str]) -> tuple[Case, ...]:
        while True:
            for candidate in _smaller(cases):
                if self._replays >= _MOST_REPLAYS:
                    return cases
                if self._replay(candidate).kinds & kinds:
                    cases = candidate
                    break
            else:
                return cases

    def _replay(self, cases: tuple[Case, ...]) -> Judgement:
        """Play again, and return how the last case differs and what is counted otherwise."""
        self._replays += 1
        if not is_remembered_alike(cases[-1]):
            played = play(self._arena, CaseSet(self._arena.half, (), cases[-1:]))
            return self._judge.judge(played.trials[-1])
        played = play(self._arena, CaseSet(self._arena.half, cases))
        *_, (_, judgement) = self._judge.judge_all(played)
        return Judgement(judgement.differences + self._judge.judge_series(played).differences)

    def _counts(self, cases: Sequence[Case]) -> Judgement:
        played = play(self._arena, CaseSet(self._arena.half, tuple(cases)))
        return self._judge.judge_series(played)

    def _tell(self, cases: tuple[Case, ...]) -> str:
        lines = [_describe(case, self._arena.half) for case in cases]
        return "\n".join([*lines, str(self._replay(cases))])


def _smaller(cases: tuple[Case, ...]) -> Iterator[tuple[Case, ...]]:
    for index in range(len(cases) - 1):
        yield cases[:index] + cases[index + 1 :]
    *before, last = cases
    for index in range(len(last.headers)):
        headers = last.headers[:index] + last.headers[index + 1 :]
        yield (*before, replace(last, headers=headers))
    path, mark, _ = last.target.partition(b"?")
    if mark and last.method in {b"GET", b"HEAD", b"OPTIONS"}:
        yield (*before, replace(last, target=path))
    if last.target != b"/api/v1/pods" or last.method != b"GET":
        yield (*before, replace(last, method=b"GET", target=b"/api/v1/pods", body=None))


def _describe(case: Case, half: Half) -> str:
    caller, rights = case.caller, case.caller.rights
    lines = [f"caller {caller.username} ({caller.kind}, groups {caller.groups}, uid {caller.uid})"]
    if half is Half.RBAC:
        lines += [f"may {json.dumps(rule.manifest())}" for rule in rights.cluster_rules]
        lines += [f"may in one namespace {rule.manifest()}" for rule in rights.namespaced_rules]
    else:
        lines += [f"webhook {rule}" for rule in rights.policy.rules]
    lines.append(f"{case.method.decode()} {case.target!r}")
    lines += [f"{name!r}: {value!r}" for name, value in case.headers]
    if case.body is not None:
        lines.append(f"body {case.body!r}")
    return "\n  ".join(lines)
