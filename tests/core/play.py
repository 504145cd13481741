"""Drives an evaluation with scripted answers, and keeps the list of what was asked."""

from collections.abc import Callable, Container, Iterable

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.evaluation import (
    Ask,
    CacheLookup,
    Evaluation,
    ImpersonationDecision,
    Question,
)

YES = CheckResult(allowed=True)
NO = CheckResult(allowed=False)


def run(evaluation: Evaluation, answer: Callable[[Question], CheckResult]) -> ImpersonationDecision:
    """Answer every question until there is a verdict."""
    try:
        question = next(evaluation)
        while True:
            question = evaluation.send(answer(question))
    except StopIteration as stop:
        decision: ImpersonationDecision = stop.value
        return decision


def play(
    evaluation: Evaluation, *, allow: Callable[[AccessCheck], bool]
) -> tuple[ImpersonationDecision, list[str]]:
    """Answer checks by a rule and remember nothing; return the verdict and the checks in short."""
    asked: list[str] = []

    def answer(question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            return NO
        asked.append(short(question.check))
        return YES if allow(question.check) else NO

    return run(evaluation, answer), asked


def play_asks(evaluation: Evaluation, *, deny: Container[str] = ()) -> list[Ask]:
    """Return the checks as they were asked, with what each announced, all but some allowed."""
    asks: list[Ask] = []

    def answer(question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            return NO
        asks.append(question)
        return NO if short(question.check) in deny else YES

    run(evaluation, answer)
    return asks


def granting(*grants: str) -> Callable[[AccessCheck], bool]:
    """Allow exactly the checks that read like this."""
    return lambda check: short(check) in grants


def short(check: AccessCheck) -> str:
    """Say a check in one line: verb, resource[.group][/subresource], namespace/name."""
    if not check.is_resource:
        return f"{check.verb} {check.path}"
    resource = check.resource + (f".{check.group}" if check.group else "")
    if check.subresource:
        resource += f"/{check.subresource}"
    words = [check.verb, resource, f"{check.namespace}/{check.name}"]
    return " ".join(words)


def shorts(checks: Iterable[AccessCheck]) -> list[str]:
    """Say several checks, one line each."""
    return [short(check) for check in checks]
