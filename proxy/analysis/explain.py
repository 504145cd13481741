"""Explanations of requests with the access reviews of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.output import escape_control_characters
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explainer import ExplainSteps, explain
from proxy.core.explain.explanation import (
    CheckOutcome,
    DecisionContext,
    ExplainRequest,
    Explanation,
    ModeOutcome,
)
from proxy.core.impersonation.checks import ImpersonationRules, access_check_for, is_pod_stream_get
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import DEFAULT_RESTRICTIONS, IdentityRestrictions
from proxy.core.rbac.grants import GrantObject, UngrantableError, rbac_objects_for
from proxy.core.rbac.intent.model import DISCOVERY
from proxy.core.rbac.model import subject_of
from proxy.core.requestinfo.request_info import RequestInfo

_FIRST_WITH_UIDS = (1, 22)
_FIRST_WITH_CREATE = (1, 35)


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """The proxy's settings that affect a decision."""

    rules: ImpersonationRules
    restrictions: IdentityRestrictions = DEFAULT_RESTRICTIONS


@dataclass(frozen=True, slots=True)
class ExplainResult:
    """An explanation, and the RBAC objects that would allow the request, if any can."""

    explanation: Explanation
    grant: tuple[GrantObject, ...] = ()
    no_grant_reason: str = ""
    """Why no grant can add what is missing, or empty."""


async def explain_request(
    cluster: Cluster,
    request: ExplainRequest,
    settings: DecisionSettings,
    *,
    for_kubectl: bool = False,
) -> ExplainResult:
    """Explain a request with reviews of the cluster.

    A grant `for_kubectl` includes discovery, which kubectl requests before the actual request.
    """
    context = await _decision_context(cluster, request, settings)
    explanation = await _drive(cluster, explain(request, context))
    visits = await _missing_discovery(cluster, explanation) if for_kubectl else []
    return build_result(explanation, discovery_checks=visits)


def build_result(
    explanation: Explanation, *, discovery_checks: Sequence[AccessCheck] = ()
) -> ExplainResult:
    """Return the result with the objects to apply, or why no grant helps."""
    if explanation.unsatisfiable_reason or not (explanation.missing or discovery_checks):
        return ExplainResult(explanation, no_grant_reason=explanation.unsatisfiable_reason)
    subject = subject_of(explanation.request.caller.user)
    try:
        objects = rbac_objects_for(subject, explanation.missing, patterns=discovery_checks)
    except UngrantableError as error:
        return ExplainResult(explanation, no_grant_reason=str(error))
    return ExplainResult(explanation, tuple(objects))


async def _drive(cluster: Cluster, steps: ExplainSteps) -> Explanation:
    try:
        check = next(steps)
        while True:
            check = steps.send(await cluster.review(check))
    except StopIteration as finished:
        explanation: Explanation = finished.value
        return explanation


async def _missing_discovery(cluster: Cluster, explanation: Explanation) -> list[AccessCheck]:
    mode = explanation.grant_mode or explanation.mode
    if mode is None or mode is ImpersonationMode.LEGACY:
        return []
    user, verb = explanation.request.caller.user, mode.action_verb("get")
    checks = [access_check_for(RequestInfo("get", path), verb, user=user) for path in DISCOVERY]
    results = await cluster.review_all(checks)
    return [check for check, result in zip(checks, results, strict=True) if not result.allowed]


async def _decision_context(
    cluster: Cluster, request: ExplainRequest, settings: DecisionSettings
) -> DecisionContext:
    wanted_user = request.wanted_user or request.caller.user
    is_stream = is_pod_stream_get(request.request_info)
    if not wanted_user.uid and not is_stream:
        return DecisionContext(settings.rules, settings.restrictions)
    version = await cluster.version()
    return DecisionContext(
        settings.rules,
        replace(settings.restrictions, supports_uid=version >= _FIRST_WITH_UIDS),
        streams_need_create=version >= _FIRST_WITH_CREATE,
    )


class AccessPart(NamedTuple):
    """One part of the permission. `allowed` is None if it was not checked."""

    name: str
    allowed: bool | None
    check: str


def summarize_parts(explanation: Explanation) -> list[AccessPart]:
    """Return the outcome of each part, in the mode that allows it or would allow it."""
    own = AccessPart(
        "own permission", explanation.is_target_allowed, _summaries(explanation.target_check)
    )
    if explanation.request.wanted_user is None:
        return [own]
    mode = explanation.mode or explanation.grant_mode or _first_tried(explanation)
    attempt = next((attempt for attempt in explanation.attempts if attempt.mode is mode), None)
    if attempt is None:
        return [AccessPart("action", None, "no mode applies"), own]
    outcomes = (*attempt.checks, *attempt.unreached_checks)
    action_checks = [outcome for outcome in outcomes if _is_action(outcome.check)]
    identity_checks = [outcome for outcome in outcomes if not _is_action(outcome.check)]
    action = _part("action", action_checks, explanation)
    if mode is ImpersonationMode.LEGACY:
        action = AccessPart("action", None, "legacy impersonation is not limited to actions")
    identity = _part("identity", identity_checks, explanation)
    if attempt.forbidden_reason:
        identity = AccessPart(
            "identity", allowed=False, check=escape_control_characters(attempt.forbidden_reason)
        )
    return [action, identity, own]


def _first_tried(explanation: Explanation) -> ImpersonationMode | None:
    tried = [
        attempt
        for attempt in explanation.attempts
        if attempt.outcome is not ModeOutcome.NOT_APPLICABLE
    ]
    return tried[0].mode if tried else None


def _part(name: str, outcomes: Sequence[CheckOutcome], explanation: Explanation) -> AccessPart:
    if explanation.mode is not None:
        return AccessPart(name, allowed=True, check=_summaries(outcomes))
    if explanation.grant_mode is not None:
        # Denied wildcard checks do not count: they are irrelevant if each item is allowed.
        missing = [outcome for outcome in outcomes if outcome.check in explanation.missing]
        return AccessPart(name, not missing, _summaries(missing or outcomes))
    if not outcomes:
        return AccessPart(name, None, "not checked")
    return AccessPart(name, all(result.allowed for _, result in outcomes), _summaries(outcomes))


def _is_action(check: AccessCheck) -> bool:
    return check.verb.startswith("impersonate-on:")


def _summaries(outcomes: Sequence[CheckOutcome]) -> str:
    denied = [outcome for outcome in outcomes if not outcome.result.allowed]
    return ", ".join(
        escape_control_characters(check_summary(check)) for check, _ in denied or outcomes
    )
