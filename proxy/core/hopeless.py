"""What no grant can open: impersonations that only the legacy verb makes, whatever RBAC says."""

from collections.abc import Iterable

from proxy.core.plan import Attempt, RefusedStep, identity_steps

NO_MODE = "no constrained mode makes a node or a service account with groups, a uid or extras"


def hopeless_reason(attempts: Iterable[Attempt]) -> str | None:
    """Return why none of these attempts can ever succeed, or None if a grant can make one.

    The attempts are those of rules without legacy; that there is none at all is a reason, too.
    """
    reason: str | None = NO_MODE
    for attempt in attempts:
        reason = _refusal(attempt)
        if reason is None:
            return None
    return reason


def _refusal(attempt: Attempt) -> str | None:
    refused = (step.reason for step in identity_steps(attempt) if isinstance(step, RefusedStep))
    return next(refused, None)
