"""An intent as tests: what must be allowed once its grants are applied, and what must not be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.core.impersonation.modes import Mode
from proxy.core.rbac.grants import ANY
from proxy.core.rbac.intent.model import OWN_NODE, Intent
from proxy.core.rbac.model import NOBODY, SERVICE_ACCOUNT, Subject, somebody
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    extra_of,
    node_name,
    service_account,
)

_OTHER = "understudy-other"
_OTHER_RESOURCE = "understudyothers"
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Trial:
    """One request, and what must become of it."""

    caller: Caller
    wanted: Identity
    action: Action
    what: str
    is_meant: bool = False


def trials(intents: Sequence[Intent]) -> list[Trial]:
    """Return every combination that is meant, and the neighbours of each that are not.

    A neighbour that another intent opens to the same impersonator is left out.
    """
    found: dict[tuple[Caller, Identity, Action], Trial] = {}
    for intent in intents:
        for trial in (*_meant(intent), *_neighbours(intent)):
            if trial.is_meant or not _is_open(trial, intents):
                found.setdefault((trial.caller, trial.wanted, trial.action), trial)
    return list(found.values())


def _meant(intent: Intent) -> Iterator[Trial]:
    for subject in intent.impersonators:
        for target in intent.targets:
            for action in intent.actions():
                caller, wanted = _caller(subject, intent.mode), _sample(target)
                yield Trial(caller, wanted, _sample_action(action), "meant", is_meant=True)


def _neighbours(intent: Intent) -> Iterator[Trial]:
    for subject in intent.impersonators:
        caller = _caller(subject, intent.mode)
        action, target = _sample_action(intent.actions()[0]), _sample(intent.targets[0])
        for one in intent.actions():
            for what, other in _other_actions(_sample_action(one)):
                yield Trial(caller, target, other, what)
        for what, wanted in _other_targets(target, intent.mode):
            yield Trial(caller, wanted, action, what)
        yield Trial(_stranger(caller), target, action, "somebody else")


def _other_actions(action: Action) -> Iterator[tuple[str, Action]]:
    if not action.is_resource:
        yield "another method", replace(action, verb="put" if action.verb != "put" else "post")
        yield "another path", replace(action, path=f"/{_OTHER}")
        return
    for verb in _VERBS:
        yield f"another verb, {verb}", replace(action, verb=verb)
    yield "another resource", replace(action, resource=_OTHER_RESOURCE)
    yield "another group", replace(action, group=f"{_OTHER}.io")
    if action.subresource:
        yield "without the subresource", replace(action, subresource="")
    else:
        yield "a subresource", replace(action, subresource=_OTHER)
    yield "another name", replace(action, name=_OTHER)
    yield "another namespace", replace(action, namespace=_OTHER)


def _other_targets(target: Identity, mode: Mode) -> Iterator[tuple[str, Identity]]:
    if mode is Mode.USER_INFO:
        yield "another user", replace(target, name=_OTHER)
        yield "another group beside", replace(target, groups=(*target.groups, _OTHER))
        yield "system:masters beside", replace(target, groups=("system:masters",))
        yield "another uid", replace(target, uid=_OTHER)
    if mode is Mode.ASSOCIATED_NODE:
        yield "another node than the own", Identity(f"system:node:{_OTHER}")
        return
    if mode is not Mode.ARBITRARY_NODE:
        yield "a node", Identity(f"system:node:{_OTHER}")
    else:
        yield "another node", Identity(f"system:node:{_OTHER}")
    yield "another service account", Identity(f"system:serviceaccount:{_OTHER}:{_OTHER}")
    if mode is not Mode.USER_INFO:
        yield "a user", Identity(_OTHER)


def _is_open(trial: Trial, intents: Sequence[Intent]) -> bool:
    """Tell whether the rights of all intents together allow what no single one may mean."""
    same = [
        intent
        for intent in intents
        if any(one.is_held_by(trial.caller.identity) for one in intent.impersonators)
    ]
    return any(
        _is_covered(trial.wanted, [one for one in same if one.mode is mode])
        and any(one.means_action(trial.action) for one in same if one.mode is mode)
        for mode in {intent.mode for intent in same}
    )


def _is_covered(wanted: Identity, intents: Sequence[Intent]) -> bool:
    """Tell whether every part of an identity is opened by some target, as RBAC sees it."""
    targets = [target for intent in intents for target in intent.targets]
    extras = {(key, one) for target in targets for key, values in target.extra for one in values}
    groups = {group for target in targets for group in target.groups}
    uids = {target.uid for target in targets}
    wanted_extras = {(key, one) for key, values in wanted.extra for one in values}
    return (
        any(_is_name(target.name, wanted.name, intents[0].mode) for target in targets)
        and (not wanted.uid or not uids.isdisjoint({wanted.uid, ANY}))
        and (ANY in groups or groups.issuperset(wanted.groups))
        and "system:masters" not in wanted.groups
        and all(pair in extras or (pair[0], ANY) in extras for pair in wanted_extras)
    )


def _is_name(pattern: str, name: str, mode: Mode) -> bool:
    if mode is Mode.ASSOCIATED_NODE:
        return name == _sample(OWN_NODE).name
    if pattern == ANY:
        return node_name(name) is None and service_account(name) is None
    if pattern.endswith(ANY):
        return name.startswith(pattern.removesuffix(ANY))
    return pattern == name


def _sample(target: Identity) -> Identity:
    """Return an identity that a target stands for."""
    extra = {
        key: [value.replace(ANY, "anything") for value in values] for key, values in target.extra
    }
    return Identity(
        target.name.replace(ANY, "anyone"),
        target.uid.replace(ANY, "any-uid"),
        tuple(group.replace(ANY, "any-group") for group in target.groups),
        extra_of(extra),
    )


def _sample_action(action: Action) -> Action:
    """Return an action that a pattern stands for."""
    path = f"{action.path.rstrip('*')}any" if action.path.endswith("*") else action.path
    name = action.name
    if action.is_resource and not name and action.verb in {"get", "update", "patch", "delete"}:
        name = "any"
    return replace(action, path=path, name=name)


def _caller(subject: Subject, mode: Mode) -> Caller:
    identity = somebody(subject)
    if mode is not Mode.ASSOCIATED_NODE:
        return Caller(identity)
    if subject.kind != SERVICE_ACCOUNT:
        identity = replace(identity, name=f"system:serviceaccount:{_OTHER}:{_OTHER}")
    node = node_name(_sample(OWN_NODE).name) or ""
    return Caller(replace(identity, extra=extra_of({NODE_NAME_KEY: [node]})))


def _stranger(caller: Caller) -> Caller:
    return Caller(replace(caller.identity, name=f"{NOBODY}-else", groups=("system:authenticated",)))
