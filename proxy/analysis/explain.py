"""Explanations of requests with the access reviews of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.explain_warnings import cluster_warnings
from proxy.analysis.output import escape_control_characters
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.companions import companion_requests
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
from proxy.core.rbac.grants import (
    GrantObject,
    GrantPurpose,
    UngrantableError,
    rbac_objects_for,
)
from proxy.core.rbac.intent.model import DISCOVERY
from proxy.core.rbac.model import subject_of
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

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
    companions: tuple[Explanation, ...] = ()
    """Explanations of the requests that kubectl sends besides."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """What a grant includes, and how its objects are named."""

    for_kubectl: bool = False
    """Include discovery and the further requests of kubectl."""
    anyway: bool = False
    """Return a grant although the target lacks its own permission."""
    name: str | None = None
    made_at: str = ""
    forwarder: str | None = None
    """User name of the proxy's forwarder, if it is not the one of the manifests."""


_DEFAULT_OPTIONS = GrantOptions()


async def explain_request(
    cluster: Cluster,
    request: ExplainRequest,
    settings: DecisionSettings,
    options: GrantOptions = _DEFAULT_OPTIONS,
) -> ExplainResult:
    """Explain a request with reviews of the cluster."""
    context = await _decision_context(cluster, request, settings)
    explanation = await _drive(cluster, explain(request, context))
    discovery: list[AccessCheck] = []
    companions: list[Explanation] = []
    alternatives: list[Explanation] = []
    if options.for_kubectl:
        discovery = await _missing_discovery(cluster, explanation)
        for companion in companion_requests(request.request_info):
            info = companion.request_info
            further = await _drive(cluster, explain(replace(request, request_info=info), context))
            (alternatives if companion.is_alternative else companions).append(further)
    result = build_result(
        explanation,
        companions=companions,
        alternatives=alternatives,
        discovery_checks=discovery,
        options=options,
    )
    return replace(result, warnings=await cluster_warnings(cluster, explanation, options.forwarder))


def build_result(
    explanation: Explanation,
    *,
    companions: Sequence[Explanation] = (),
    alternatives: Sequence[Explanation] = (),
    discovery_checks: Sequence[AccessCheck] = (),
    options: GrantOptions = _DEFAULT_OPTIONS,
) -> ExplainResult:
    """Return the result with the objects to apply, or why no grant helps.

    `alternatives` are requests that kubectl sends instead, which the target need not be allowed.
    """
    every = (explanation, *companions, *alternatives)
    result = ExplainResult(explanation, companions=every[1:])
    missing = dict.fromkeys(check for one in every for check in one.missing)
    reason = next((one.unsatisfiable_reason for one in every if one.unsatisfiable_reason), "")
    if reason:
        return replace(result, no_grant_reason=reason)
    lacking = next((one for one in (explanation, *companions) if not one.is_target_allowed), None)
    if lacking is not None and not options.anyway:
        return replace(result, no_grant_reason=target_denial(lacking))
    if not (missing or discovery_checks):
        return result
    subject = subject_of(explanation.request.caller.user)
    try:
        objects = rbac_objects_for(
            subject,
            missing,
            patterns=discovery_checks,
            name=options.name,
            purpose=_purpose(every, options),
        )
    except UngrantableError as error:
        return replace(result, no_grant_reason=str(error))
    return replace(result, grant=tuple(objects))


def _purpose(explanations: Sequence[Explanation], options: GrantOptions) -> GrantPurpose:
    request = explanations[0].request
    actions = dict.fromkeys(describe_request(one.request) for one in explanations)
    return GrantPurpose(
        caller=escape_control_characters(request.caller.user.name),
        target="" if request.wanted_user is None else describe_user(request.wanted_user),
        purpose=", ".join(actions),
        made_by="understudy explain",
        made_at=options.made_at,
    )


def target_denial(explanation: Explanation) -> str:
    """Return why no grant to the caller helps if the target lacks its own permission."""
    name = escape_control_characters(explanation.impersonated_user.name)
    what = describe_request(explanation.request)
    if explanation.request.wanted_user is None:
        return f"{name} itself may not {what}: an ordinary role and a binding would allow it"
    return f"{name} itself may not {what}"


def describe_request(request: ExplainRequest) -> str:
    """Return a short description of the requested action."""
    info = request.request_info
    return escape_control_characters(
        check_summary(access_check_for(info, info.verb, user=UserInfo("")))
    )


def describe_user(user: UserInfo) -> str:
    """Return a user with everything it has, on one line."""
    parts = [f"uid {user.uid}"] if user.uid else []
    parts += [f"group {group}" for group in user.groups]
    parts += [f"{key}={value}" for key, values in user.extra for value in values]
    return escape_control_characters(f"{user.name} ({', '.join(parts)})" if parts else user.name)


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
