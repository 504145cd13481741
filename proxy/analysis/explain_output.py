"""Output of explanations, as a text tree and as a document."""

from collections.abc import Mapping

from proxy.analysis.explain import ExplainResult, describe_request, describe_user, target_denial
from proxy.analysis.output import (
    Colors,
    TreeNode,
    escape_control_characters,
    manifests_text,
    tree_lines,
)
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explanation import (
    CheckOutcome,
    Explanation,
    ModeAttempt,
    ModeOutcome,
)
from proxy.core.explain.recorded_request import RecordedOutcome
from proxy.core.impersonation.checks import access_check_for
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.userinfo import UserInfo

_BEYOND = "not checked for this request, but required"


def render_text(
    explained: ExplainResult, colors: Colors, *, recorded: RecordedOutcome | None, notes: list[str]
) -> str:
    """Return the explanation as a tree, followed by the objects to apply."""
    explanation = explained.explanation
    branches = [] if recorded is None else [_recorded_branch(recorded, colors)]
    if explanation.attempts:
        modes = [_mode_branch(attempt, colors) for attempt in explanation.attempts]
        branches.append(TreeNode(colors.strong("modes, in evaluation order"), modes))
    branches.append(_target_branch(explanation, colors))
    if explanation.response is not None:
        branches.append(_response_branch(explanation, colors))
    if explained.companions:
        further = [_companion_branch(one, colors) for one in explained.companions]
        branches.append(TreeNode(colors.strong("kubectl also sends"), further))
    branches += [TreeNode(f"note: {note}") for note in (*notes, *explained.warnings)]
    branches += _grant_branches(explained, colors)
    lines = [_headline(explanation, colors), *tree_lines(branches)]
    text = "\n".join(lines) + "\n"
    if explained.grant:
        text += f"---\n{manifests_text(explained.grant)}"
    return text


def render_document(
    explained: ExplainResult, *, recorded: RecordedOutcome | None, notes: list[str]
) -> dict[str, object]:
    """Return the complete explanation as one document."""
    explanation = explained.explanation
    request, response = explanation.request, explanation.response
    document: dict[str, object] = {
        "allowed": explanation.is_allowed,
        "caller": _user(request.caller.user),
        "wanted": None if request.wanted_user is None else _user(request.wanted_user),
        "action": _attributes(
            access_check_for(request.request_info, request.request_info.verb, user=_NO_USER)
        ),
        "modes": [_mode_document(attempt) for attempt in explanation.attempts],
        "mode": None if explanation.mode is None else explanation.mode.value,
        "mayAct": explanation.is_impersonation_allowed,
        "acting": _user(explanation.impersonated_user),
        "ownRight": {
            "allowed": explanation.is_target_allowed,
            "reviews": _reviews(explanation.target_check),
        },
        "answer": None,
        "grantMode": None if explanation.grant_mode is None else explanation.grant_mode.value,
        "grant": list(explained.grant),
        "noGrant": explained.no_grant_reason or None,
        "companions": [
            {"action": describe_request(one.request), "allowed": one.is_allowed}
            for one in explained.companions
        ],
        "notes": [*notes, *explained.warnings],
    }
    if response is not None:
        sender = "proxy" if response.is_from_proxy else "API server"
        document["answer"] = {"code": response.code, "message": response.message, "from": sender}
    if recorded is not None:
        document["recorded"] = _recorded_document(recorded)
    return document


_NO_USER = UserInfo("")


def _headline(explanation: Explanation, colors: Colors) -> str:
    request = explanation.request
    users = escape_control_characters(request.caller.user.name)
    if request.wanted_user is not None:
        users += f" as {describe_user(request.wanted_user)}"
    decision = colors.good("allowed") if explanation.is_allowed else colors.bad("denied")
    return f"{colors.strong(f'{users}: {describe_request(request)}')}: {decision}"


def _mode_branch(attempt: ModeAttempt, colors: Colors) -> TreeNode:
    outcome = attempt.outcome.value
    if attempt.outcome is ModeOutcome.ALLOWED:
        outcome = colors.good(outcome)
    elif attempt.outcome is ModeOutcome.DENIED:
        outcome = colors.bad(outcome)
    text = f"{attempt.mode.value}: {outcome}; {escape_control_characters(attempt.reason)}"
    if attempt.outcome is ModeOutcome.NOT_APPLICABLE:
        return TreeNode(colors.faint(text))
    below = [_check_branch(check, colors) for check in attempt.checks]
    if attempt.forbidden_reason:
        below.append(
            TreeNode(
                f"{colors.bad('never')}  {escape_control_characters(attempt.forbidden_reason)}"
            )
        )
    below += [_check_branch(check, colors, remark=_BEYOND) for check in attempt.unreached_checks]
    return TreeNode(text, below)


def _check_branch(outcome: CheckOutcome, colors: Colors, *, remark: str = "") -> TreeNode:
    check, result = outcome
    answer = colors.good("yes") if result.allowed else f"{colors.bad('no')} "
    text = f"{answer}  {escape_control_characters(check_summary(check))}"
    reason = ": ".join(part for part in (result.error, result.reason) if part)
    if reason:
        text += colors.faint(f"  ({escape_control_characters(reason)})")
    return TreeNode(text + (colors.faint(f"  [{remark}]") if remark else ""))


def _target_branch(explanation: Explanation, colors: Colors) -> TreeNode:
    name = escape_control_characters(explanation.impersonated_user.name)
    checks = [_check_branch(outcome, colors) for outcome in explanation.target_check]
    return TreeNode(colors.strong(f"{name}'s own permission"), checks)


def _response_branch(explanation: Explanation, colors: Colors) -> TreeNode:
    response = explanation.response
    assert response is not None
    sender = "the proxy" if response.is_from_proxy else "the API server"
    heading = colors.strong(f"response to the client, from {sender}")
    return TreeNode(
        heading, [TreeNode(f"{response.code} {escape_control_characters(response.message)}")]
    )


def _grant_branches(explained: ExplainResult, colors: Colors) -> list[TreeNode]:
    explanation = explained.explanation
    by_legacy = explanation.mode is ImpersonationMode.LEGACY
    if explained.grant:
        mode = explanation.grant_mode
        purpose = "to replace legacy impersonation" if by_legacy else "to allow exactly this"
        text = f"{colors.strong(purpose)}, in {mode} mode: the objects below, with kubectl apply"
        denied = [one for one in (explanation, *explained.companions) if not one.is_target_allowed]
        return [TreeNode(text, [TreeNode(target_denial(one)) for one in denied])]
    if explained.no_grant_reason and not explanation.is_target_allowed:
        caller = escape_control_characters(explanation.request.caller.user.name)
        heading = "this is no matter of impersonation"
        if explanation.request.wanted_user is not None:
            heading = f"no grant to {caller} helps"
        reason = escape_control_characters(explained.no_grant_reason)
        return [TreeNode(f"{colors.bad(heading)}: {reason}")]
    if explained.no_grant_reason and by_legacy:
        return [
            TreeNode(
                f"{colors.strong('only legacy impersonation')}: "
                f"{escape_control_characters(explained.no_grant_reason)}"
            )
        ]
    if explained.no_grant_reason:
        return [
            TreeNode(
                f"{colors.bad('no grant can allow this')}: "
                f"{escape_control_characters(explained.no_grant_reason)}"
            )
        ]
    return []


def _companion_branch(explanation: Explanation, colors: Colors) -> TreeNode:
    decision = colors.good("allowed") if explanation.is_allowed else colors.bad("denied")
    return TreeNode(f"{describe_request(explanation.request)}: {decision}")


def _recorded_branch(recorded: RecordedOutcome, colors: Colors) -> TreeNode:
    facts = [f"{key}: {value}" for key, value in recorded.annotations.items() if key != "wanted"]
    if recorded.constraint:
        facts.insert(0, f"constraint: {recorded.constraint}")
    code = "" if recorded.code is None else f"{recorded.code} "
    below = [TreeNode(f"response {code}{escape_control_characters(recorded.message)}".rstrip())]
    below += [TreeNode(escape_control_characters(fact)) for fact in facts]
    heading = f"recorded {recorded.received_at} as {recorded.audit_id}; below, by the current rules"
    return TreeNode(colors.strong(escape_control_characters(heading)), below)


def _recorded_document(recorded: RecordedOutcome) -> dict[str, object]:
    return {
        "auditID": recorded.audit_id,
        "requestReceivedTimestamp": recorded.received_at,
        "code": recorded.code,
        "message": recorded.message,
        "constraint": recorded.constraint or None,
        "annotations": dict(recorded.annotations),
    }


def _mode_document(attempt: ModeAttempt) -> dict[str, object]:
    return {
        "mode": attempt.mode.value,
        "outcome": attempt.outcome.value,
        "reason": attempt.reason,
        "refused": attempt.forbidden_reason or None,
        "reviews": _reviews(attempt.checks),
        "neededBeyond": _reviews(attempt.unreached_checks),
    }


def _reviews(outcomes: tuple[CheckOutcome, ...]) -> list[dict[str, object]]:
    return [
        {
            "user": _user(check.user),
            "attributes": _attributes(check),
            "allowed": result.allowed,
            "reason": result.reason,
            "error": result.error,
        }
        for check, result in outcomes
    ]


def _attributes(check: AccessCheck) -> Mapping[str, object]:
    if not check.is_resource:
        return {"verb": check.verb, "path": check.path}
    attributes: dict[str, object] = {
        "verb": check.verb,
        "group": check.group,
        "version": check.version,
        "resource": check.resource,
        "subresource": check.subresource,
        "namespace": check.namespace,
        "name": check.name,
    }
    if check.fields:
        attributes["fieldSelector"] = [list(requirement) for requirement in check.fields]
    if check.labels:
        attributes["labelSelector"] = [
            [key, operator, list(values)] for key, operator, values in check.labels
        ]
    return attributes


def _user(user: UserInfo) -> dict[str, object]:
    return {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
