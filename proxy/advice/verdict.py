"""The three parts of one answer: the action on behalf, the identity, the target's own right."""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.advice.printing import printable
from proxy.core.access_check import AccessCheck
from proxy.core.explanation import Asked, Explanation, Outcome
from proxy.core.forbidden import check_summary
from proxy.core.modes import Mode


class Part(NamedTuple):
    """One of the parts. `allowed` is None where the question did not come up."""

    name: str
    allowed: bool | None
    question: str


def parts_of(explanation: Explanation) -> list[Part]:
    """Return what became of each part, in the mode that allows it or would."""
    own = Part("own right", explanation.may_do, _questions(explanation.own))
    if explanation.request.wanted is None:
        return [own]
    mode = explanation.mode or explanation.grant_mode or _first_tried(explanation)
    trial = next((one for one in explanation.trials if one.mode is mode), None)
    if trial is None:
        return [Part("action", None, "no mode applies"), own]
    asked = (*trial.asked, *trial.beyond)
    action = [one for one in asked if _is_action(one.check)]
    identity = [one for one in asked if not _is_action(one.check)]
    on_behalf = _part("action", action, explanation)
    if mode is Mode.LEGACY:
        on_behalf = Part("action", None, "legacy impersonation is bound to no action")
    who = _part("identity", identity, explanation)
    if trial.refused:
        who = Part("identity", allowed=False, question=printable(trial.refused))
    return [on_behalf, who, own]


def _first_tried(explanation: Explanation) -> Mode | None:
    tried = [trial for trial in explanation.trials if trial.outcome is not Outcome.NOT_APPLICABLE]
    return tried[0].mode if tried else None


def _part(name: str, asked: Sequence[Asked], explanation: Explanation) -> Part:
    if explanation.mode is not None:
        return Part(name, allowed=True, question=_questions(asked))
    if explanation.grant_mode is not None:
        # Not simply every answer: that not all of a kind is allowed matters to nobody if each is.
        missing = [one for one in asked if one.check in explanation.missing]
        return Part(name, not missing, _questions(missing or asked))
    if not asked:
        return Part(name, None, "not asked")
    return Part(name, all(answer.allowed for _, answer in asked), _questions(asked))


def _is_action(check: AccessCheck) -> bool:
    return check.verb.startswith("impersonate-on:")


def _questions(asked: Sequence[Asked]) -> str:
    denied = [one for one in asked if not one.answer.allowed]
    return ", ".join(printable(check_summary(check)) for check, _ in denied or asked)
