"""An explanation as a tree for people, and as a document for programs."""

from collections.abc import Mapping

from proxy.analysis.explain import Advice
from proxy.analysis.output import (
    Branch,
    Ink,
    manifests_text,
    printable,
    tree_lines,
)
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explanation import (
    Asked,
    Explanation,
    Outcome,
    Request,
    Trial,
)
from proxy.core.explain.recorded_request import Recorded
from proxy.core.impersonation.checks import check_on
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import Mode
from proxy.core.userinfo import Identity

_BEYOND = "not asked for this request, but needed for it"


def advice_text(advice: Advice, ink: Ink, *, recorded: Recorded | None, notes: list[str]) -> str:
    """Return everything as a tree, and below it what to apply."""
    explanation = advice.explanation
    branches = [] if recorded is None else [_recorded_branch(recorded, ink)]
    if explanation.trials:
        modes = [_trial_branch(trial, ink) for trial in explanation.trials]
        branches.append(Branch(ink.strong("modes, in the order of trial"), modes))
    branches.append(_own_branch(explanation, ink))
    if explanation.told is not None:
        branches.append(_answer_branch(explanation, ink))
    branches += [Branch(f"note: {note}") for note in notes]
    branches += _grant_branches(advice, ink)
    lines = [_headline(explanation, ink), *tree_lines(branches)]
    text = "\n".join(lines) + "\n"
    if advice.grant:
        text += f"---\n{manifests_text(advice.grant)}"
    return text


def advice_document(
    advice: Advice, *, recorded: Recorded | None, notes: list[str]
) -> dict[str, object]:
    """Return everything as one document, nothing left out."""
    explanation = advice.explanation
    request, told = explanation.request, explanation.told
    document: dict[str, object] = {
        "allowed": explanation.is_allowed,
        "caller": _user(request.caller.identity),
        "wanted": None if request.wanted is None else _user(request.wanted),
        "action": _attributes(check_on(request.action, request.action.verb, user=_NOBODY)),
        "modes": [_trial_document(trial) for trial in explanation.trials],
        "mode": None if explanation.mode is None else explanation.mode.value,
        "mayAct": explanation.may_act,
        "acting": _user(explanation.acting),
        "ownRight": {"allowed": explanation.may_do, "reviews": _reviews(explanation.own)},
        "answer": None,
        "grantMode": None if explanation.grant_mode is None else explanation.grant_mode.value,
        "grant": list(advice.grant),
        "noGrant": advice.no_grant or None,
        "notes": notes,
    }
    if told is not None:
        speaker = "proxy" if told.is_ours else "API server"
        document["answer"] = {"code": told.code, "message": told.message, "from": speaker}
    if recorded is not None:
        document["recorded"] = _recorded_document(recorded)
    return document


_NOBODY = Identity("")


def what_is_asked(request: Request) -> str:
    """Return the action in few words."""
    return printable(check_summary(check_on(request.action, request.action.verb, user=_NOBODY)))


def _headline(explanation: Explanation, ink: Ink) -> str:
    request = explanation.request
    who = printable(request.caller.identity.name)
    if request.wanted is not None:
        who += f" as {_person(request.wanted)}"
    verdict = ink.good("allowed") if explanation.is_allowed else ink.bad("denied")
    return f"{ink.strong(f'{who}: {what_is_asked(request)}')}: {verdict}"


def _person(identity: Identity) -> str:
    parts = [f"uid {identity.uid}"] if identity.uid else []
    parts += [f"group {group}" for group in identity.groups]
    parts += [f"{key}={value}" for key, values in identity.extra for value in values]
    return printable(f"{identity.name} ({', '.join(parts)})" if parts else identity.name)


def _trial_branch(trial: Trial, ink: Ink) -> Branch:
    outcome = trial.outcome.value
    if trial.outcome is Outcome.ALLOWED:
        outcome = ink.good(outcome)
    elif trial.outcome is Outcome.DENIED:
        outcome = ink.bad(outcome)
    text = f"{trial.mode.value}: {outcome}; {printable(trial.reason)}"
    if trial.outcome is Outcome.NOT_APPLICABLE:
        return Branch(ink.faint(text))
    below = [_asked_branch(asked, ink) for asked in trial.asked]
    if trial.refused:
        below.append(Branch(f"{ink.bad('never')}  {printable(trial.refused)}"))
    below += [_asked_branch(asked, ink, remark=_BEYOND) for asked in trial.beyond]
    return Branch(text, below)


def _asked_branch(asked: Asked, ink: Ink, *, remark: str = "") -> Branch:
    check, answer = asked
    said = ink.good("yes") if answer.allowed else f"{ink.bad('no')} "
    text = f"{said}  {printable(check_summary(check))}"
    reason = ": ".join(part for part in (answer.error, answer.reason) if part)
    if reason:
        text += ink.faint(f"  ({printable(reason)})")
    return Branch(text + (ink.faint(f"  [{remark}]") if remark else ""))


def _own_branch(explanation: Explanation, ink: Ink) -> Branch:
    name = printable(explanation.acting.name)
    asked = [_asked_branch(one, ink) for one in explanation.own]
    return Branch(ink.strong(f"{name}'s own right to do it"), asked)


def _answer_branch(explanation: Explanation, ink: Ink) -> Branch:
    told = explanation.told
    assert told is not None
    speaker = "the proxy" if told.is_ours else "the API server"
    heading = ink.strong(f"what the client is told, by {speaker}")
    return Branch(heading, [Branch(f"{told.code} {printable(told.message)}")])


def _grant_branches(advice: Advice, ink: Ink) -> list[Branch]:
    explanation = advice.explanation
    by_legacy = explanation.mode is Mode.LEGACY
    if advice.grant:
        mode = explanation.grant_mode
        purpose = "to need legacy impersonation no more" if by_legacy else "to allow exactly this"
        text = f"{ink.strong(purpose)}, in {mode} mode: the objects below, by kubectl apply"
        warning = [] if explanation.may_do else [Branch(_own_warning(explanation))]
        return [Branch(text, warning)]
    if advice.no_grant and by_legacy:
        return [Branch(f"{ink.strong('only legacy impersonation')}: {printable(advice.no_grant)}")]
    if advice.no_grant:
        return [Branch(f"{ink.bad('no grant can allow this')}: {printable(advice.no_grant)}")]
    if explanation.may_act and not explanation.may_do:
        return [Branch(_own_warning(explanation))]
    return []


def _own_warning(explanation: Explanation) -> str:
    name = printable(explanation.acting.name)
    return f"{name} itself may not do it, which no right of the caller's changes"


def _recorded_branch(recorded: Recorded, ink: Ink) -> Branch:
    facts = [f"{key}: {value}" for key, value in recorded.annotations.items() if key != "wanted"]
    if recorded.constraint:
        facts.insert(0, f"constraint: {recorded.constraint}")
    told = "" if recorded.code is None else f"{recorded.code} "
    below = [Branch(f"answered {told}{printable(recorded.message)}".rstrip())]
    below += [Branch(printable(fact)) for fact in facts]
    heading = f"recorded {recorded.received_at} under {recorded.audit_id}; below, as rules are now"
    return Branch(ink.strong(printable(heading)), below)


def _recorded_document(recorded: Recorded) -> dict[str, object]:
    return {
        "auditID": recorded.audit_id,
        "requestReceivedTimestamp": recorded.received_at,
        "code": recorded.code,
        "message": recorded.message,
        "constraint": recorded.constraint or None,
        "annotations": dict(recorded.annotations),
    }


def _trial_document(trial: Trial) -> dict[str, object]:
    return {
        "mode": trial.mode.value,
        "outcome": trial.outcome.value,
        "reason": trial.reason,
        "refused": trial.refused or None,
        "reviews": _reviews(trial.asked),
        "neededBeyond": _reviews(trial.beyond),
    }


def _reviews(asked: tuple[Asked, ...]) -> list[dict[str, object]]:
    return [
        {
            "user": _user(check.user),
            "attributes": _attributes(check),
            "allowed": answer.allowed,
            "reason": answer.reason,
            "error": answer.error,
        }
        for check, answer in asked
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


def _user(identity: Identity) -> dict[str, object]:
    return {
        "username": identity.name,
        "uid": identity.uid,
        "groups": list(identity.groups),
        "extra": {key: list(values) for key, values in identity.extra},
    }
