"""The order of asking, when to stop, and what comes out: the decision as questions and answers.

`evaluate` yields questions and is sent answers; it waits for nothing itself. Whoever drives it
brings the answers: the API server, a cache, a script of a test, a person's explanation.
"""

from collections.abc import Generator, Iterable
from enum import Enum
from typing import NamedTuple, assert_never

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import Forbidden
from proxy.core.gocompat.quote import cut_text, shown_quote
from proxy.core.http.status import without_html
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    Step,
    WildcardCheck,
    identity_steps,
    request_checks,
)
from proxy.core.impersonation.modes import ImpersonationMode, impersonated_user
from proxy.core.userinfo import UserInfo

LEGACY_DISABLED = "legacy impersonation is disabled"


class CacheScope(Enum):
    """Which part of an attempt a short memory may vouch for."""

    REQUEST = "request"
    """All of it, for this very action."""
    IDENTITY = "identity"
    """Everything but the action."""


class Ask(NamedTuple):
    """A check to be answered by an authorizer.

    `upcoming` are checks that follow if nothing is denied, each announced once: a driver may ask
    for them ahead. They count only when they are asked here.
    """

    mode: ImpersonationMode
    check: AccessCheck
    upcoming: tuple[AccessCheck, ...] = ()


class CacheLookup(NamedTuple):
    """Is this layer of the attempt known to be allowed from a moment ago? No is always safe."""

    attempt: Attempt
    layer: CacheScope


Question = Ask | CacheLookup


class Allowed(NamedTuple):
    """The impersonation is permitted in a mode. `learned` are the layers now worth remembering."""

    attempt: Attempt
    impersonated_user: UserInfo
    cacheable: tuple[CacheScope, ...] = ()

    @property
    def mode(self) -> ImpersonationMode:
        """The mode that worked."""
        return self.attempt.mode


class Denied(NamedTuple):
    """No mode worked. The first failure is what the client is told, whatever followed it.

    Without a failed check there was no mode to try, and the reason says why.
    """

    first_failure: AccessCheck | None
    reason: str


ImpersonationDecision = Allowed | Denied
Evaluation = Generator[Question, CheckResult, ImpersonationDecision]


def evaluate(attempts: Iterable[Attempt]) -> Evaluation:
    """Try each attempt in turn and return the first that is allowed, or the first failure."""
    first: Denied | None = None
    for attempt in attempts:
        outcome = yield from _try(attempt)
        if isinstance(outcome, Allowed):
            return outcome
        first = first or outcome
    return first or Denied(None, LEGACY_DISABLED)


def _try(attempt: Attempt) -> Evaluation:
    if attempt.is_request_cacheable:
        known = yield CacheLookup(attempt, CacheScope.REQUEST)
        if known.allowed:
            return _allowed(attempt)
    failure = yield from _ask_all(attempt, request_checks(attempt))
    if failure is not None:
        return failure
    learned: tuple[CacheScope, ...] = (CacheScope.REQUEST,) if attempt.is_request_cacheable else ()
    if attempt.is_identity_cacheable:
        known = yield CacheLookup(attempt, CacheScope.IDENTITY)
        if known.allowed:
            return _allowed(attempt, learned)
        learned = (CacheScope.IDENTITY, *learned)
    failure = yield from _ask_identity(attempt)
    return failure or _allowed(attempt, learned)


def _allowed(attempt: Attempt, learned: tuple[CacheScope, ...] = ()) -> Allowed:
    # The acting identity is computed anew each time and never remembered: what is shared between
    # the nodes of one agent is the permission, not the node.
    return Allowed(attempt, impersonated_user(attempt.mode, attempt.wanted_user), learned)


def _ask_identity(attempt: Attempt) -> Generator[Question, CheckResult, Denied | None]:
    steps = identity_steps(attempt)
    upcoming = _first_wave(steps)[1:]
    for step in steps:
        match step:
            case ForbiddenStep():
                return Denied(step.check, step.reason)
            case AccessCheck():
                result = yield Ask(attempt.mode, step, upcoming)
                if not _is_yes(attempt, result):
                    return _denied(attempt, step, result)
            case WildcardCheck():
                result = yield Ask(attempt.mode, step.check, upcoming)
                if not _is_yes(attempt, result):
                    failure = yield from _ask_all(attempt, step.individual_checks())
                    if failure is not None:
                        return failure
            case _:
                assert_never(step)
        upcoming = ()
    return None


def _first_wave(steps: Iterable[Step]) -> tuple[AccessCheck, ...]:
    """Return what is asked for certain unless something is denied: stars, not their items."""
    wave = []
    for step in steps:
        if isinstance(step, ForbiddenStep):
            break
        wave.append(step.check if isinstance(step, WildcardCheck) else step)
    return tuple(wave)


def _ask_all(
    attempt: Attempt, checks: Iterable[AccessCheck]
) -> Generator[Question, CheckResult, Denied | None]:
    wave = tuple(checks)
    upcoming = wave[1:]
    for check in wave:
        result = yield Ask(attempt.mode, check, upcoming)
        if not _is_yes(attempt, result):
            return _denied(attempt, check, result)
        upcoming = ()
    return None


def _is_yes(attempt: Attempt, result: CheckResult) -> bool:
    # An authorizer may stumble over one rule and allow by another. The former filter took any
    # stumbling for a no.
    return result.allowed and (attempt.rules.constrained or not result.error)


def _denied(attempt: Attempt, check: AccessCheck, result: CheckResult) -> Denied:
    said = (result.error, result.reason) if attempt.rules.constrained else (result.reason,)
    return Denied(check, ": ".join(text for text in said if text))


def forbidden_error(denied: Denied) -> Forbidden:
    """Return the refusal that tells a client of a denial."""
    check = denied.first_failure
    if check is None:
        return Forbidden(denied.reason, details={})
    details = {"name": check.name, "group": check.group, "kind": check.resource}
    error = Forbidden(
        forbidden_message(check, denied.reason),
        details={key: cut_text(value) for key, value in details.items() if value},
    )
    error.failed_check = check_summary(check)
    return error


def check_summary(check: AccessCheck) -> str:
    """Return a check in few words: verb, resource (or path), and name and namespace if any."""
    if not check.is_resource:
        return f"{check.verb} {check.path}"
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    where = f" in {check.namespace}" if check.namespace else ""
    return f"{check.verb} {resource}{f' {check.name}' if check.name else ''}{where}"


def forbidden_message(check: AccessCheck, reason: str) -> str:
    """Return who may not do what, and why if the authorizer said so.

    Only the middle part is freed of markup; the prefix and the reason are not, as natively.
    """
    denial = without_html(
        f"User {shown_quote(check.user.name)} cannot {check.verb} {_object(check)}"
    )
    suffix = f": {reason}" if reason else ""
    return f"{_prefix(check)}forbidden: {denial}{suffix}"


def _prefix(check: AccessCheck) -> str:
    if not check.resource and not check.group:
        return ""
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    resource = cut_text(resource)
    return f"{resource} {shown_quote(check.name)} is " if check.name else f"{resource} is "


def _object(check: AccessCheck) -> str:
    if not check.is_resource:
        return f"path {shown_quote(check.path)}"
    resource = check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    scope = "at the cluster scope"
    if check.namespace:
        scope = f"in the namespace {shown_quote(check.namespace)}"
    return f"resource {shown_quote(resource)} in API group {shown_quote(check.group)} {scope}"


NO_MODE = "no constrained mode makes a node or a service account with groups, a uid or extras"


def unsatisfiable_reason(attempts: Iterable[Attempt]) -> str | None:
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
    refused = (step.reason for step in identity_steps(attempt) if isinstance(step, ForbiddenStep))
    return next(refused, None)
