"""Is what the subject did what the reference did, or one of the deviations that we list?"""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

import yaml

from tests.parity.deviations import (
    ALWAYS_JSON,
    CLOSED_UPGRADE,
    OWN_IDENTITY,
    PROTECTED_GROUP,
    REFUSED_REQUEST,
    WARNING_START,
    claimed_deviation,
    is_upgrade,
    may_be_refused_request,
)
from tests.parity.observations import Observation
from tests.parity.reviews import compare_reviews
from tests.parity.trials import Played, Trial
from tests.parity.webhook import Review

_BAD_REQUEST = 400
_FORBIDDEN = 403
_UNREADABLE = 500
_LATE_REVIEWS = 50
"""What a proxy asked ahead and did not need may arrive while the next requests are served."""
# A connection may be closed for many a reason; only that of an upgrade is a promise.
_COMPARED_ELSEWHERE = frozenset({"reviews", "closes"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """Both sides agree when there are no differences, up to the deviation of that letter."""

    differences: tuple[tuple[str, str], ...] = ()
    """What differs, and how."""
    deviation: str | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """What differs, in a word each."""
        return frozenset(kind for kind, _ in self.differences)

    def __str__(self) -> str:
        return "\n".join(f"  {kind}:{how}" for kind, how in self.differences)


@dataclass(frozen=True, slots=True)
class Judge:
    """Knows what may differ: nothing between native servers, the listed letters for the proxy."""

    is_proxied: bool
    protects_groups: bool = True

    def judge_all(self, played: Played) -> Iterator[tuple[Trial, Judgement]]:
        """Yield each case that was played with its judgement."""
        earlier: deque[Review] = deque(maxlen=_LATE_REVIEWS)
        for trial in played.trials:
            yield trial, self.judge(trial, earlier)
            earlier.extend(trial.reference.reviews)

    def judge(self, trial: Trial, earlier: Iterable[Review] = ()) -> Judgement:
        """Compare both sides of one case. `earlier` are reviews that may come in late."""
        deviation = self._deviation(trial)
        if deviation is not None:
            return deviation
        found = _differences(trial.reference, trial.subject)
        wrong = compare_reviews(
            trial.reference.reviews,
            trial.subject.reviews,
            earlier=earlier,
            is_proxied=self.is_proxied,
        )
        if wrong is not None:
            found.append(("reviews", wrong))
        return Judgement(tuple(found))

    def judge_series(self, played: Played) -> Judgement:
        """Compare what both sides counted while the steady cases were played."""
        reference, subject = played.reference_series, played.subject_series
        return Judgement(
            tuple(
                (name, f" reference +{reference[name]}, subject +{subject[name]}")
                for name in sorted({*reference, *subject})
                if reference[name] != subject[name]
            )
        )

    def _deviation(self, trial: Trial) -> Judgement | None:
        """Return the judgement on a case where the subject may, or must, answer otherwise."""
        if not self.is_proxied:
            return None
        letter = claimed_deviation(trial.case)
        if letter == PROTECTED_GROUP and not self.protects_groups:
            letter = None
        is_unreadable = trial.reference.status == _UNREADABLE
        # Both sides look at the target before they look at any header.
        if letter == REFUSED_REQUEST or (letter is not None and not is_unreadable):
            return _judge_refusal(trial, letter)
        if may_be_refused_request(trial.case) and trial.subject.status == _BAD_REQUEST:
            return Judgement(deviation=REFUSED_REQUEST)
        subject = without_discovery_warning(trial.subject)
        if _is_same_status(trial.reference, subject):
            return Judgement(deviation=ALWAYS_JSON)
        if is_upgrade(trial.case) and _is_only_closed(trial.reference, subject):
            return Judgement(deviation=CLOSED_UPGRADE)
        return None


def _judge_refusal(trial: Trial, letter: str) -> Judgement:
    subject = trial.subject
    wanted = _FORBIDDEN if letter in {PROTECTED_GROUP, OWN_IDENTITY} else _BAD_REQUEST
    if subject.status == wanted and not subject.ran_as:
        return Judgement(deviation=letter)
    how = f" the subject answers {subject.status}, {subject.message}, runs as {subject.ran_as}"
    return Judgement(((f"deviation {letter} is claimed", how),))


def without_discovery_warning(subject: Observation) -> Observation:
    """Return what is compared: a 403 of the proxy without the Warning of deviation r."""
    if subject.status != _FORBIDDEN or subject.ran_as:
        return subject
    kept = tuple(
        (name, value)
        for name, value in subject.headers
        if name != "Warning" or not value.startswith(WARNING_START)
    )
    return replace(subject, headers=kept)


def _differences(reference: Observation, subject: Observation) -> list[tuple[str, str]]:
    subject = without_discovery_warning(subject)
    found = []
    for field in fields(Observation):
        ours, theirs = getattr(subject, field.name), getattr(reference, field.name)
        if field.name not in _COMPARED_ELSEWHERE and ours != theirs:
            found.append((field.name, f"\n    reference {theirs}\n    subject   {ours}"))
    return found


def _is_only_closed(reference: Observation, subject: Observation) -> bool:
    is_closed = subject.closes and not reference.closes and not reference.ran_as
    return is_closed and not _differences(reference, subject)


def _is_same_status(reference: Observation, subject: Observation) -> bool:
    """Tell whether native wrote our refusal in another encoding that the client asked for."""
    if reference.content_type == subject.content_type or subject.ran_as or reference.ran_as:
        return False
    if reference.content_type.startswith("text/plain"):
        # Its HTTP library refused it, before anything was known that could be audited.
        return reference.status == subject.status == _BAD_REQUEST and not reference.audit
    alike = replace(reference, body=subject.body, headers=subject.headers)
    return not _differences(alike, subject) and _says_the_same(reference, subject)


def _says_the_same(reference: Observation, subject: Observation) -> bool:
    match reference.content_type:
        case "application/yaml":
            ours = json.loads(subject.body or b"null")  # nothing at all is an answer to HEAD
            return bool(yaml.safe_load(reference.body) == ours)
        case "application/vnd.kubernetes.protobuf":
            return subject.message.encode() in reference.body
        case _:
            return False
