"""Intents: declarative impersonation grants, from which RBAC objects are generated."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

from proxy.core.impersonation.checks import is_pod_stream_get
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import (
    ANY,
    GrantObject,
    GrantPurpose,
    GrantRequirement,
    grant_objects,
)
from proxy.core.rbac.model import (
    RBACSnapshot,
    Rule,
    Subject,
    describe_subject,
    path_matches,
    user_for_subject,
)
from proxy.core.rbac.resources import APIResource
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version")
"""Paths that kubectl and other clients request before the actual request."""

COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})
"""Verbs that no request has together with a subresource."""

ASSOCIATED_NODE = UserInfo(f"system:node:{ANY}")
"""Placeholder for the node that a service account runs on."""


@dataclass(frozen=True, slots=True)
class PermittedAction:
    """Verbs on resources or paths. No names means all names, no namespaces means all namespaces.

    Namespaces are ignored for cluster-scoped resources.
    """

    verbs: tuple[str, ...]
    resources: tuple[APIResource, ...] = ()
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """Each impersonator may impersonate each target, for each action, in one mode.

    With `is_exact`, only the listed verbs are allowed. Otherwise equivalent verbs are added: watch
    to list, because both return the same objects, and get to create of a stream and vice versa,
    because clients use either.
    """

    name: str
    mode: ImpersonationMode
    impersonators: tuple[Subject, ...]
    targets: tuple[UserInfo, ...]
    permitted_actions: tuple[PermittedAction, ...]
    includes_discovery: bool = True
    is_exact: bool = False

    def actions(self) -> tuple[RequestInfo, ...]:
        """Return all intended actions, without duplicates. Paths may be patterns."""
        found: dict[RequestInfo, None] = {}
        for action in self.permitted_actions:
            for request_info in _expand(action):
                found.update(dict.fromkeys(_with_equivalents(request_info, is_exact=self.is_exact)))
        if self.includes_discovery:
            found.update(dict.fromkeys(RequestInfo("get", path) for path in DISCOVERY))
        return tuple(found)

    def needs(self) -> list[GrantRequirement]:
        """Return the grant requirements of all impersonators and targets."""
        actions = self.actions()
        return [
            GrantRequirement(subject, self.mode, target, actions, has_patterns=True)
            for subject, target in product(self.impersonators, self.targets)
        ]

    def objects(self) -> list[GrantObject]:
        """Return the roles and bindings that allow the intent. Raises UngrantableError."""
        return grant_objects(self.needs(), name=self.name, purpose=self._purpose())

    def _purpose(self) -> GrantPurpose:
        """Return the purpose without a date: equal intents are compiled to equal objects."""
        actions = [
            f"{'/'.join(action.verbs)} {' '.join((*map(str, action.resources), *action.paths))}"
            for action in self.permitted_actions
        ]
        own_node = "its own node"
        return GrantPurpose(
            caller=", ".join(_subject_name(subject) for subject in self.impersonators),
            target=", ".join(
                own_node if target == ASSOCIATED_NODE else target.name for target in self.targets
            ).replace(ANY, "*"),
            purpose=", ".join(actions),
            made_by="understudy grant",
        )

    def covers(self, request_info: RequestInfo) -> bool:
        """Return whether an action is intended, regardless of impersonator and target."""
        return any(_covers(meant, request_info) for meant in self.actions())


def _subject_name(subject: Subject) -> str:
    if subject.namespace:
        return f"system:serviceaccount:{subject.namespace}:{subject.name}"
    return subject.name


def _expand(action: PermittedAction) -> Iterator[RequestInfo]:
    for verb, path in product(action.verbs, action.paths):
        yield RequestInfo(verb, path)
    names, namespaces = action.names or ("",), action.namespaces or ("",)
    for verb, resource, name in product(action.verbs, action.resources, names):
        if verb in COLLECTION_VERBS and "/" in resource.name:
            continue
        for namespace in namespaces if resource.is_namespaced else ("",):
            yield request_info_of(verb, resource, name=name, namespace=namespace)


def request_info_of(
    verb: str, resource: APIResource, *, name: str = "", namespace: str = ""
) -> RequestInfo:
    """Return the request info of a verb on a resource. It has no path."""
    kind, _, subresource = resource.name.partition("/")
    return RequestInfo(
        verb,
        "",
        is_resource=True,
        group=resource.group,
        namespace=namespace,
        resource=kind,
        name=name,
        subresource=subresource,
    )


def _with_equivalents(request_info: RequestInfo, *, is_exact: bool) -> list[RequestInfo]:
    if is_exact or not request_info.is_resource:
        return [request_info]
    if request_info.verb in {"get", "create"} and is_pod_stream_get(
        _with_verb(request_info, "get")
    ):
        return [_with_verb(request_info, "get"), _with_verb(request_info, "create")]
    if request_info.verb == "list":
        return [request_info, _with_verb(request_info, "watch")]
    return [request_info]


def _with_verb(request_info: RequestInfo, verb: str) -> RequestInfo:
    return replace(request_info, verb=verb)


def _covers(meant: RequestInfo, request_info: RequestInfo) -> bool:
    if meant.verb != request_info.verb or meant.is_resource != request_info.is_resource:
        return False
    if not meant.is_resource:
        return path_matches(meant.path, request_info.path)
    same = (meant.group, meant.resource, meant.subresource)
    return (
        same == (request_info.group, request_info.resource, request_info.subresource)
        and meant.namespace in {"", request_info.namespace}
        and meant.name in {"", request_info.name}
    )


_AUTHENTICATION = "authentication.k8s.io"
_LEGACY_RESOURCES = ("users", "groups", "serviceaccounts")
_STAR = "*"


def union_warnings(intents: Sequence[Intent]) -> list[str]:
    """Return warnings about what the intents allow together although none of them intends it."""
    warnings = [warning for intent in intents for warning in _mixed_identities(intent)]
    for first, second in permutations(intents, 2):
        warnings += _combined_intents(first, second)
    return list(dict.fromkeys(warnings))


def existing_warnings(intents: Iterable[Intent], rbac: RBACSnapshot) -> list[str]:
    """Return warnings about combinations with permissions that the impersonators already have.

    Bindings with the name of an intent are about to be replaced, and do not count.
    """
    warnings = [
        warning
        for intent in intents
        for subject in intent.impersonators
        for warning in _existing_rules(intent, subject, rbac)
    ]
    return list(dict.fromkeys(warnings))


def _mixed_identities(intent: Intent) -> Iterator[str]:
    """Yield a warning for a target's name with another target's groups, uid or extras."""
    for first, second in permutations(intent.targets, 2):
        if first.name == second.name:
            continue
        for kind, theirs, own in _parts(first, second):
            extra_parts = [part for part in theirs if part not in own]
            if extra_parts:
                yield (
                    f"{intent.name}: {first.name} may also be impersonated with {second.name}'s "
                    f"{kind} {extra_parts[0]}: parts of an identity are granted separately"
                )
                break


def _parts(
    first: UserInfo, second: UserInfo
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    yield "group", second.groups, first.groups
    yield "uid", (second.uid,) if second.uid else (), (first.uid,)
    yield "extra", _extras(second), _extras(first)


def _extras(user: UserInfo) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, values in user.extra for value in values)


def _combined_intents(first: Intent, second: Intent) -> Iterator[str]:
    """Yield a warning if one impersonator gets targets of one intent with actions of another."""
    shared = [subject for subject in first.impersonators if subject in second.impersonators]
    if not shared or first.mode is not second.mode:
        return
    targets = [target for target in first.targets if target not in second.targets]
    actions = [request_info for request_info in second.actions() if not first.covers(request_info)]
    if targets and actions:
        yield (
            f"{describe_subject(shared[0])} may impersonate {targets[0].name} ({first.name}) "
            f"also to {_describe(actions[0].verb, actions[0].resource or actions[0].path)} "
            f"({second.name}): within {first.mode} every target is allowed for every action"
        )


def _describe(verb: str, what: str) -> str:
    return f"{verb} {what}"


def _existing_rules(intent: Intent, subject: Subject, rbac: RBACSnapshot) -> Iterator[str]:
    user = user_for_subject(subject)
    for binding in rbac.bindings:
        if binding.name == intent.name or not binding.applies_to(user):
            continue
        where = f"in {binding.namespace}" if binding.namespace else "in all namespaces"
        for rule in binding.rules:
            for what in _describe_rule(rule, intent):
                holder = describe_subject(subject)
                yield f"{holder} already has {binding.role} {where}, which {what}"


def _describe_rule(rule: Rule, intent: Intent) -> Iterator[str]:
    mode = intent.mode
    if is_legacy(rule):
        yield "is legacy impersonation: not limited to actions, so this intent constrains nothing"
    elif _STAR in rule.verbs and (rule.resources or rule.paths):
        yield "has the verb *: every action and every identity of its resources, in every mode"
    elif mode.identity_verb in rule.verbs and _AUTHENTICATION in rule.groups:
        if mode is not ImpersonationMode.ASSOCIATED_NODE:
            named = ", ".join(rule.names) or "all names"
            yield (
                f"allows {', '.join(rule.resources)} ({named}) in {mode}: "
                "the actions of this intent apply to them, too"
            )
    else:
        verbs = [verb for verb in rule.verbs if verb.startswith(mode.action_verb(""))]
        if verbs:
            things = ", ".join(rule.resources or rule.paths)
            yield f"allows {', '.join(verbs)} on {things}: also as the targets of this intent"


def is_legacy(rule: Rule) -> bool:
    """Return whether a rule allows legacy impersonation, by its verb or by a star."""
    if not {"impersonate", _STAR} & set(rule.verbs):
        return False
    in_core = {"", _STAR} & set(rule.groups)
    return bool(in_core) and bool({_STAR, *_LEGACY_RESOURCES} & set(rule.resources))
