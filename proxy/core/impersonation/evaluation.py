"""Evaluation of impersonation attempts: the order of checks, when to stop, and the decision.

`evaluate` is a generator without I/O. It yields access checks and cache lookups and is sent their
results. Its driver gets the results from the API server, a cache, a test script or recorded data.
"""

from collections.abc import Generator, Iterable
from enum import Enum
from typing import NamedTuple, assert_never

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import Forbidden
from proxy.core.gocompat.quote import quote_truncated, truncate_text
from proxy.core.http.status import escape_html
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
    """The part of an attempt whose result is cached."""

    REQUEST = "request"
    """The whole attempt, for this request info."""
    IDENTITY = "identity"
    """The identity checks, for any request info."""


class Ask(NamedTuple):
    """A request for the result of an access check.

    `upcoming` are checks that follow if nothing is denied, each listed once. A driver may send
    them ahead of time. Their results count only when they are requested here.
    """

    mode: ImpersonationMode
    check: AccessCheck
    upcoming: tuple[AccessCheck, ...] = ()


class CacheLookup(NamedTuple):
    """A request for a cached result of this part of the attempt. A miss is always safe."""

    attempt: Attempt
    scope: CacheScope


Question = Ask | CacheLookup


class Allowed(NamedTuple):
    """The impersonation is allowed in a mode. `cacheable` are the results to cache now."""

    attempt: Attempt
    impersonated_user: UserInfo
    cacheable: tuple[CacheScope, ...] = ()

    @property
    def mode(self) -> ImpersonationMode:
        """The mode that was allowed."""
        return self.attempt.mode


class Denied(NamedTuple):
    """No mode was allowed. The client receives the first failure, whatever followed it.

    Without a failed check no mode was applicable, and the reason says why.
    """

    first_failure: AccessCheck | None
    reason: str


ImpersonationDecision = Allowed | Denied
Evaluation = Generator[Question, CheckResult, ImpersonationDecision]


def evaluate(attempts: Iterable[Attempt]) -> Evaluation:
    """Evaluate the attempts in order. Return the first that is allowed, or the first failure."""
    first: Denied | None = None
    for attempt in attempts:
        outcome = yield from _try(attempt)
        if isinstance(outcome, Allowed):
            return outcome
        first = first or outcome
    return first or Denied(None, LEGACY_DISABLED)


def _try(attempt: Attempt) -> Evaluation:
    if attempt.is_request_cacheable:
        cached = yield CacheLookup(attempt, CacheScope.REQUEST)
        if cached.allowed:
            return _allowed(attempt)
    failure = yield from _check_all(attempt, request_checks(attempt))
    if failure is not None:
        return failure
    cacheable: tuple[CacheScope, ...] = (
        (CacheScope.REQUEST,) if attempt.is_request_cacheable else ()
    )
    if attempt.is_identity_cacheable:
        cached = yield CacheLookup(attempt, CacheScope.IDENTITY)
        if cached.allowed:
            return _allowed(attempt, cacheable)
        cacheable = (CacheScope.IDENTITY, *cacheable)
    failure = yield from _check_identity(attempt)
    return failure or _allowed(attempt, cacheable)


def _allowed(attempt: Attempt, cacheable: tuple[CacheScope, ...] = ()) -> Allowed:
    # The impersonated user is computed each time and never stored in the decision cache. The nodes
    # of one agent share the permission, not the node.
    return Allowed(attempt, impersonated_user(attempt.mode, attempt.wanted_user), cacheable)


def _check_identity(attempt: Attempt) -> Generator[Question, CheckResult, Denied | None]:
    steps = identity_steps(attempt)
    upcoming = _certain_checks(steps)[1:]
    for step in steps:
        match step:
            case ForbiddenStep():
                return Denied(step.check, step.reason)
            case AccessCheck():
                result = yield Ask(attempt.mode, step, upcoming)
                if not _is_allowed(attempt, result):
                    return _denied(attempt, step, result)
            case WildcardCheck():
                result = yield Ask(attempt.mode, step.check, upcoming)
                if not _is_allowed(attempt, result):
                    failure = yield from _check_all(attempt, step.individual_checks())
                    if failure is not None:
                        return failure
            case _:
                assert_never(step)
        upcoming = ()
    return None


def _certain_checks(steps: Iterable[Step]) -> tuple[AccessCheck, ...]:
    """Return the checks that are certain to be made unless one is denied: wildcards, not items."""
    certain = []
    for step in steps:
        if isinstance(step, ForbiddenStep):
            break
        certain.append(step.check if isinstance(step, WildcardCheck) else step)
    return tuple(certain)


def _check_all(
    attempt: Attempt, checks: Iterable[AccessCheck]
) -> Generator[Question, CheckResult, Denied | None]:
    pending = tuple(checks)
    upcoming = pending[1:]
    for check in pending:
        result = yield Ask(attempt.mode, check, upcoming)
        if not _is_allowed(attempt, result):
            return _denied(attempt, check, result)
        upcoming = ()
    return None


def _is_allowed(attempt: Attempt, result: CheckResult) -> bool:
    # An authorizer may fail to evaluate one rule and allow by another. The pre-1.35 filter treats
    # any evaluation error as a denial.
    return result.allowed and (attempt.rules.constrained or not result.error)


def _denied(attempt: Attempt, check: AccessCheck, result: CheckResult) -> Denied:
    reasons = (result.error, result.reason) if attempt.rules.constrained else (result.reason,)
    return Denied(check, ": ".join(text for text in reasons if text))


def forbidden_error(denied: Denied) -> Forbidden:
    """Return the status error that the client receives for a denial."""
    check = denied.first_failure
    if check is None:
        return Forbidden(denied.reason, details={})
    details = {"name": check.name, "group": check.group, "kind": check.resource}
    error = Forbidden(
        forbidden_message(check, denied.reason),
        details={key: truncate_text(value) for key, value in details.items() if value},
    )
    error.failed_check = check_summary(check)
    return error


def check_summary(check: AccessCheck) -> str:
    """Return a summary of a check: verb, resource (or path), and name and namespace if any."""
    if not check.is_resource:
        return f"{check.verb} {check.path}"
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    where = f" in {check.namespace}" if check.namespace else ""
    return f"{check.verb} {resource}{f' {check.name}' if check.name else ''}{where}"


def forbidden_message(check: AccessCheck, reason: str) -> str:
    """Return the text of a denial: user, verb, resource, and the authorizer's reason if any.

    HTML is escaped only in the middle part, not in the prefix and the reason, as kube-apiserver
    does.
    """
    denial = escape_html(
        f"User {quote_truncated(check.user.name)} cannot {check.verb} {_object(check)}"
    )
    suffix = f": {reason}" if reason else ""
    return f"{_prefix(check)}forbidden: {denial}{suffix}"


def _prefix(check: AccessCheck) -> str:
    if not check.resource and not check.group:
        return ""
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    resource = truncate_text(resource)
    return f"{resource} {quote_truncated(check.name)} is " if check.name else f"{resource} is "


def _object(check: AccessCheck) -> str:
    if not check.is_resource:
        return f"path {quote_truncated(check.path)}"
    resource = check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    scope = "at the cluster scope"
    if check.namespace:
        scope = f"in the namespace {quote_truncated(check.namespace)}"
    return (
        f"resource {quote_truncated(resource)} in API group {quote_truncated(check.group)} {scope}"
    )


NO_CONSTRAINED_MODE = (
    "no constrained mode can impersonate a node or a service account with groups, a uid or extras"
)


def unsatisfiable_reason(attempts: Iterable[Attempt]) -> str | None:
    """Return why none of these attempts can ever succeed, or None if a grant can allow one.

    The attempts must be those of rules without legacy. The absence of any attempt is a reason, too.
    """
    reason: str | None = NO_CONSTRAINED_MODE
    for attempt in attempts:
        reason = _forbidden_reason(attempt)
        if reason is None:
            return None
    return reason


def _forbidden_reason(attempt: Attempt) -> str | None:
    reasons = (step.reason for step in identity_steps(attempt) if isinstance(step, ForbiddenStep))
    return next(reasons, None)
