"""Test cases of intents: requests that the grants must allow, and neighbours that they must not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import ANY
from proxy.core.rbac.intent.model import ASSOCIATED_NODE, Intent
from proxy.core.rbac.model import SERVICE_ACCOUNT, UNNAMED_USER, Subject, user_for_subject
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
    node_name,
    service_account,
)

_OTHER = "understudy-other"
_OTHER_RESOURCE = "understudyothers"
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class ExpectedDecision:
    """One request and its expected decision."""

    caller: Caller
    wanted_user: UserInfo
    request_info: RequestInfo
    description: str
    is_allowed: bool = False


def expected_decisions(intents: Sequence[Intent]) -> list[ExpectedDecision]:
    """Return every intended combination, and neighbours of each that are not intended.

    A neighbour that another intent allows for the same impersonator is left out.
    """
    found: dict[tuple[Caller, UserInfo, RequestInfo], ExpectedDecision] = {}
    for intent in intents:
        for expected in (*_intended(intent), *_neighbours(intent)):
            if expected.is_allowed or not _is_allowed_together(expected, intents):
                found.setdefault(
                    (expected.caller, expected.wanted_user, expected.request_info), expected
                )
    return list(found.values())


def _intended(intent: Intent) -> Iterator[ExpectedDecision]:
    for subject in intent.impersonators:
        for target in intent.targets:
            for request_info in intent.actions():
                caller, wanted_user = _caller(subject, intent.mode), _sample(target)
                yield ExpectedDecision(
                    caller, wanted_user, _sample_action(request_info), "meant", is_allowed=True
                )


def _neighbours(intent: Intent) -> Iterator[ExpectedDecision]:
    for subject in intent.impersonators:
        caller = _caller(subject, intent.mode)
        request_info, target = _sample_action(intent.actions()[0]), _sample(intent.targets[0])
        for action in intent.actions():
            for what, other in _other_actions(_sample_action(action)):
                yield ExpectedDecision(caller, target, other, what)
        for what, wanted_user in _other_targets(target, intent.mode):
            yield ExpectedDecision(caller, wanted_user, request_info, what)
        yield ExpectedDecision(_other_caller(caller), target, request_info, "another caller")


def _other_actions(request_info: RequestInfo) -> Iterator[tuple[str, RequestInfo]]:
    if not request_info.is_resource:
        yield (
            "another method",
            replace(request_info, verb="put" if request_info.verb != "put" else "post"),
        )
        yield "another path", replace(request_info, path=f"/{_OTHER}")
        return
    for verb in _VERBS:
        yield f"another verb, {verb}", replace(request_info, verb=verb)
    yield "another resource", replace(request_info, resource=_OTHER_RESOURCE)
    yield "another group", replace(request_info, group=f"{_OTHER}.io")
    if request_info.subresource:
        yield "without the subresource", replace(request_info, subresource="")
    else:
        yield "a subresource", replace(request_info, subresource=_OTHER)
    yield "another name", replace(request_info, name=_OTHER)
    yield "another namespace", replace(request_info, namespace=_OTHER)


def _other_targets(target: UserInfo, mode: ImpersonationMode) -> Iterator[tuple[str, UserInfo]]:
    if mode is ImpersonationMode.USER_INFO:
        yield "another user", replace(target, name=_OTHER)
        yield "an additional group", replace(target, groups=(*target.groups, _OTHER))
        yield "system:masters as well", replace(target, groups=("system:masters",))
        yield "another uid", replace(target, uid=_OTHER)
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        yield "a node other than its own", UserInfo(f"system:node:{_OTHER}")
        return
    if mode is not ImpersonationMode.ARBITRARY_NODE:
        yield "a node", UserInfo(f"system:node:{_OTHER}")
    else:
        yield "another node", UserInfo(f"system:node:{_OTHER}")
    yield "another service account", UserInfo(f"system:serviceaccount:{_OTHER}:{_OTHER}")
    if mode is not ImpersonationMode.USER_INFO:
        yield "a user", UserInfo(_OTHER)


def _is_allowed_together(expected: ExpectedDecision, intents: Sequence[Intent]) -> bool:
    """Return whether all intents together allow what no single one may intend."""
    same = [
        intent
        for intent in intents
        if any(subject.matches(expected.caller.user) for subject in intent.impersonators)
    ]
    return any(
        _is_covered(expected.wanted_user, [intent for intent in same if intent.mode is mode])
        and any(intent.covers(expected.request_info) for intent in same if intent.mode is mode)
        for mode in {intent.mode for intent in same}
    )


def _is_covered(wanted_user: UserInfo, intents: Sequence[Intent]) -> bool:
    """Return whether each part of a user is allowed by some target, as RBAC evaluates it."""
    targets = [target for intent in intents for target in intent.targets]
    extras = {
        (key, value) for target in targets for key, values in target.extra for value in values
    }
    groups = {group for target in targets for group in target.groups}
    uids = {target.uid for target in targets}
    wanted_extras = {(key, value) for key, values in wanted_user.extra for value in values}
    return (
        any(_is_name(target.name, wanted_user.name, intents[0].mode) for target in targets)
        and (not wanted_user.uid or not uids.isdisjoint({wanted_user.uid, ANY}))
        and (ANY in groups or groups.issuperset(wanted_user.groups))
        and "system:masters" not in wanted_user.groups
        and all(pair in extras or (pair[0], ANY) in extras for pair in wanted_extras)
    )


def _is_name(pattern: str, name: str, mode: ImpersonationMode) -> bool:
    if mode is ImpersonationMode.ASSOCIATED_NODE:
        return name == _sample(ASSOCIATED_NODE).name
    if pattern == ANY:
        return node_name(name) is None and service_account(name) is None
    if pattern.endswith(ANY):
        return name.startswith(pattern.removesuffix(ANY))
    return pattern == name


def _sample(target: UserInfo) -> UserInfo:
    """Return an example of the users that a target stands for."""
    extra = {
        key: [value.replace(ANY, "anything") for value in values] for key, values in target.extra
    }
    return UserInfo(
        target.name.replace(ANY, "anyone"),
        target.uid.replace(ANY, "any-uid"),
        tuple(group.replace(ANY, "any-group") for group in target.groups),
        make_extra(extra),
    )


def _sample_action(request_info: RequestInfo) -> RequestInfo:
    """Return an example of the actions that a pattern stands for."""
    path = (
        f"{request_info.path.rstrip('*')}any"
        if request_info.path.endswith("*")
        else request_info.path
    )
    name = request_info.name
    if (
        request_info.is_resource
        and not name
        and request_info.verb in {"get", "update", "patch", "delete"}
    ):
        name = "any"
    return replace(request_info, path=path, name=name)


def _caller(subject: Subject, mode: ImpersonationMode) -> Caller:
    user = user_for_subject(subject)
    if mode is not ImpersonationMode.ASSOCIATED_NODE:
        return Caller(user)
    if subject.kind != SERVICE_ACCOUNT:
        user = replace(user, name=f"system:serviceaccount:{_OTHER}:{_OTHER}")
    node = node_name(_sample(ASSOCIATED_NODE).name) or ""
    return Caller(replace(user, extra=make_extra({NODE_NAME_KEY: [node]})))


def _other_caller(caller: Caller) -> Caller:
    return Caller(
        replace(caller.user, name=f"{UNNAMED_USER}-else", groups=("system:authenticated",))
    )
