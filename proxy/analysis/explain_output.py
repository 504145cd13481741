"""An explanation as a tree for people, and as a document for programs."""

from collections.abc import Mapping

from proxy.analysis.explain import ExplainResult
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
    ExplainRequest,
    Explanation,
    ModeAttempt,
    ModeOutcome,
)
from proxy.core.explain.recorded_request import RecordedOutcome
from proxy.core.impersonation.checks import access_check_for
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.userinfo import UserInfo

_BEYOND = "not asked for this request, but needed for it"


def render_text(
    advice: ExplainResult, ink: Colors, *, recorded: RecordedOutcome | None, notes: list[str]
) -> str:
    """Return everything as a tree, and below it what to apply."""
    explanation = advice.explanation
    branches = [] if recorded is None else [_recorded_branch(recorded, ink)]
    if explanation.trials:
        modes = [_trial_branch(trial, ink) for trial in explanation.trials]
        branches.append(TreeNode(ink.strong("modes, in the order of trial"), modes))
    branches.append(_own_branch(explanation, ink))
    if explanation.response is not None:
        branches.append(_answer_branch(explanation, ink))
    branches += [TreeNode(f"note: {note}") for note in notes]
    branches += _grant_branches(advice, ink)
    lines = [_headline(explanation, ink), *tree_lines(branches)]
    text = "\n".join(lines) + "\n"
    if advice.grant:
        text += f"---\n{manifests_text(advice.grant)}"
    return text


def render_document(
    advice: ExplainResult, *, recorded: RecordedOutcome | None, notes: list[str]
) -> dict[str, object]:
    """Return everything as one document, nothing left out."""
    explanation = advice.explanation
    request, response = explanation.request, explanation.response
    document: dict[str, object] = {
        "allowed": explanation.is_allowed,
        "caller": _user(request.caller.user),
        "wanted": None if request.wanted_user is None else _user(request.wanted_user),
        "action": _attributes(
            access_check_for(request.request_info, request.request_info.verb, user=_NOBODY)
        ),
        "modes": [_trial_document(trial) for trial in explanation.trials],
        "mode": None if explanation.mode is None else explanation.mode.value,
        "mayAct": explanation.may_act,
        "acting": _user(explanation.impersonated_user),
        "ownRight": {"allowed": explanation.may_do, "reviews": _reviews(explanation.target_check)},
        "answer": None,
        "grantMode": None if explanation.grant_mode is None else explanation.grant_mode.value,
        "grant": list(advice.grant),
        "noGrant": advice.no_grant_reason or None,
        "notes": notes,
    }
    if response is not None:
        speaker = "proxy" if response.is_from_proxy else "API server"
        document["answer"] = {"code": response.code, "message": response.message, "from": speaker}
    if recorded is not None:
        document["recorded"] = _recorded_document(recorded)
    return document


_NOBODY = UserInfo("")


def describe_request(request: ExplainRequest) -> str:
    """Return the action in few words."""
    return escape_control_characters(
        check_summary(
            access_check_for(request.request_info, request.request_info.verb, user=_NOBODY)
        )
    )


def _headline(explanation: Explanation, ink: Colors) -> str:
    request = explanation.request
    who = escape_control_characters(request.caller.user.name)
    if request.wanted_user is not None:
        who += f" as {_person(request.wanted_user)}"
    verdict = ink.good("allowed") if explanation.is_allowed else ink.bad("denied")
    return f"{ink.strong(f'{who}: {describe_request(request)}')}: {verdict}"


def _person(user: UserInfo) -> str:
    parts = [f"uid {user.uid}"] if user.uid else []
    parts += [f"group {group}" for group in user.groups]
    parts += [f"{key}={value}" for key, values in user.extra for value in values]
    return escape_control_characters(f"{user.name} ({', '.join(parts)})" if parts else user.name)


def _trial_branch(trial: ModeAttempt, ink: Colors) -> TreeNode:
    outcome = trial.outcome.value
    if trial.outcome is ModeOutcome.ALLOWED:
        outcome = ink.good(outcome)
    elif trial.outcome is ModeOutcome.DENIED:
        outcome = ink.bad(outcome)
    text = f"{trial.mode.value}: {outcome}; {escape_control_characters(trial.reason)}"
    if trial.outcome is ModeOutcome.NOT_APPLICABLE:
        return TreeNode(ink.faint(text))
    below = [_asked_branch(asked, ink) for asked in trial.checks]
    if trial.forbidden:
        below.append(TreeNode(f"{ink.bad('never')}  {escape_control_characters(trial.forbidden)}"))
    below += [_asked_branch(asked, ink, remark=_BEYOND) for asked in trial.beyond]
    return TreeNode(text, below)


def _asked_branch(asked: CheckOutcome, ink: Colors, *, remark: str = "") -> TreeNode:
    check, result = asked
    said = ink.good("yes") if result.allowed else f"{ink.bad('no')} "
    text = f"{said}  {escape_control_characters(check_summary(check))}"
    reason = ": ".join(part for part in (result.error, result.reason) if part)
    if reason:
        text += ink.faint(f"  ({escape_control_characters(reason)})")
    return TreeNode(text + (ink.faint(f"  [{remark}]") if remark else ""))


def _own_branch(explanation: Explanation, ink: Colors) -> TreeNode:
    name = escape_control_characters(explanation.impersonated_user.name)
    asked = [_asked_branch(one, ink) for one in explanation.target_check]
    return TreeNode(ink.strong(f"{name}'s own right to do it"), asked)


def _answer_branch(explanation: Explanation, ink: Colors) -> TreeNode:
    response = explanation.response
    assert response is not None
    speaker = "the proxy" if response.is_from_proxy else "the API server"
    heading = ink.strong(f"what the client is told, by {speaker}")
    return TreeNode(
        heading, [TreeNode(f"{response.code} {escape_control_characters(response.message)}")]
    )


def _grant_branches(advice: ExplainResult, ink: Colors) -> list[TreeNode]:
    explanation = advice.explanation
    by_legacy = explanation.mode is ImpersonationMode.LEGACY
    if advice.grant:
        mode = explanation.grant_mode
        purpose = "to need legacy impersonation no more" if by_legacy else "to allow exactly this"
        text = f"{ink.strong(purpose)}, in {mode} mode: the objects below, by kubectl apply"
        warning = [] if explanation.may_do else [TreeNode(_own_warning(explanation))]
        return [TreeNode(text, warning)]
    if advice.no_grant_reason and by_legacy:
        return [
            TreeNode(
                f"{ink.strong('only legacy impersonation')}: "
                f"{escape_control_characters(advice.no_grant_reason)}"
            )
        ]
    if advice.no_grant_reason:
        return [
            TreeNode(
                f"{ink.bad('no grant can allow this')}: "
                f"{escape_control_characters(advice.no_grant_reason)}"
            )
        ]
    if explanation.may_act and not explanation.may_do:
        return [TreeNode(_own_warning(explanation))]
    return []


def _own_warning(explanation: Explanation) -> str:
    name = escape_control_characters(explanation.impersonated_user.name)
    return f"{name} itself may not do it, which no right of the caller's changes"


def _recorded_branch(recorded: RecordedOutcome, ink: Colors) -> TreeNode:
    facts = [f"{key}: {value}" for key, value in recorded.annotations.items() if key != "wanted"]
    if recorded.constraint:
        facts.insert(0, f"constraint: {recorded.constraint}")
    told = "" if recorded.code is None else f"{recorded.code} "
    below = [TreeNode(f"answered {told}{escape_control_characters(recorded.message)}".rstrip())]
    below += [TreeNode(escape_control_characters(fact)) for fact in facts]
    heading = f"recorded {recorded.received_at} under {recorded.audit_id}; below, as rules are now"
    return TreeNode(ink.strong(escape_control_characters(heading)), below)


def _recorded_document(recorded: RecordedOutcome) -> dict[str, object]:
    return {
        "auditID": recorded.audit_id,
        "requestReceivedTimestamp": recorded.received_at,
        "code": recorded.code,
        "message": recorded.message,
        "constraint": recorded.constraint or None,
        "annotations": dict(recorded.annotations),
    }


def _trial_document(trial: ModeAttempt) -> dict[str, object]:
    return {
        "mode": trial.mode.value,
        "outcome": trial.outcome.value,
        "reason": trial.reason,
        "refused": trial.forbidden or None,
        "reviews": _reviews(trial.checks),
        "neededBeyond": _reviews(trial.beyond),
    }


def _reviews(asked: tuple[CheckOutcome, ...]) -> list[dict[str, object]]:
    return [
        {
            "user": _user(check.user),
            "attributes": _attributes(check),
            "allowed": result.allowed,
            "reason": result.reason,
            "error": result.error,
        }
        for check, result in asked
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
        attributes["fieldSelector"] = [list(one) for one in check.fields]
    if check.labels:
        attributes["labelSelector"] = [[one[0], one[1], list(one[2])] for one in check.labels]
    return attributes


def _user(user: UserInfo) -> dict[str, object]:
    return {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
