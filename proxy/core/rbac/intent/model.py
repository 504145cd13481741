"""What somebody means to allow: who may act as whom, and for what. RBAC is made of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

from proxy.core.impersonation.checks import is_pod_stream_get
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import (
    ANY,
    GrantObject,
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
"""What kubectl and other clients visit before the deed itself."""

COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})
"""Verbs that never come with a subresource."""

ASSOCIATED_NODE = UserInfo(f"system:node:{ANY}")
"""The node that a service account runs on, whichever that is."""


@dataclass(frozen=True, slots=True)
class PermittedAction:
    """Verbs on resources or paths. Without names all are meant, and so are all namespaces.

    Resources of the cluster are in no namespace, whatever is said here.
    """

    verbs: tuple[str, ...]
    resources: tuple[APIResource, ...] = ()
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """Each impersonator may act as each target, for each deed, in one mode.

    With `is_exact`, verbs are taken as they stand. Otherwise what goes together is allowed
    together: a watch tells what a list tells, and a stream is opened by get or by create,
    whichever way the client prefers.
    """

    name: str
    mode: ImpersonationMode
    impersonators: tuple[Subject, ...]
    targets: tuple[UserInfo, ...]
    deeds: tuple[PermittedAction, ...]
    discovers: bool = True
    is_exact: bool = False

    def actions(self) -> tuple[RequestInfo, ...]:
        """Return everything that is meant to be done, each once; paths may be patterns."""
        found: dict[RequestInfo, None] = {}
        for deed in self.deeds:
            for request_info in _actions(deed):
                found.update(dict.fromkeys(_together(request_info, is_exact=self.is_exact)))
        if self.discovers:
            found.update(dict.fromkeys(RequestInfo("get", path) for path in DISCOVERY))
        return tuple(found)

    def needs(self) -> list[GrantRequirement]:
        """Return what the impersonators need for it."""
        actions = self.actions()
        return [
            GrantRequirement(subject, self.mode, target, actions, has_patterns=True)
            for subject, target in product(self.impersonators, self.targets)
        ]

    def objects(self) -> list[GrantObject]:
        """Return the roles and bindings that allow it. Raises Ungrantable."""
        return grant_objects(self.needs(), name=self.name)

    def covers(self, request_info: RequestInfo) -> bool:
        """Tell whether this is meant to be done, by whomever and as whomever."""
        return any(_covers(meant, request_info) for meant in self.actions())


def _actions(deed: PermittedAction) -> Iterator[RequestInfo]:
    for verb, path in product(deed.verbs, deed.paths):
        yield RequestInfo(verb, path)
    names, namespaces = deed.names or ("",), deed.namespaces or ("",)
    for verb, resource, name in product(deed.verbs, deed.resources, names):
        if verb in COLLECTION_VERBS and "/" in resource.name:
            continue
        for namespace in namespaces if resource.is_namespaced else ("",):
            yield request_info_of(verb, resource, name=name, namespace=namespace)


def request_info_of(
    verb: str, resource: APIResource, *, name: str = "", namespace: str = ""
) -> RequestInfo:
    """Return a verb on a resource as an action; it comes from no request, so it has no path."""
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


def _together(request_info: RequestInfo, *, is_exact: bool) -> list[RequestInfo]:
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
    """Return what the intents together allow though none of them means it."""
    warnings = [warning for intent in intents for warning in _within(intent)]
    for first, second in permutations(intents, 2):
        warnings += _between(first, second)
    return list(dict.fromkeys(warnings))


def existing_warnings(intents: Iterable[Intent], rbac: RBACSnapshot) -> list[str]:
    """Return what becomes possible together with rights that the impersonators have already.

    Bindings of the intents' own names are what is being replaced, and do not count.
    """
    warnings = [
        warning
        for intent in intents
        for subject in intent.impersonators
        for warning in _existing(intent, subject, rbac)
    ]
    return list(dict.fromkeys(warnings))


def _within(intent: Intent) -> Iterator[str]:
    """Give the mixed identities: one target's name with another's groups, uid or extras."""
    for first, second in permutations(intent.targets, 2):
        if first.name == second.name:
            continue
        for kind, theirs, ours in _parts(first, second):
            strange = [part for part in theirs if part not in ours]
            if strange:
                yield (
                    f"{intent.name}: {first.name} may also be asked for with {second.name}'s "
                    f"{kind} {strange[0]}: parts of an identity are granted one by one"
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


def _between(first: Intent, second: Intent) -> Iterator[str]:
    """Give what comes of two intents for one impersonator: targets of one, actions of the other."""
    shared = [one for one in first.impersonators if one in second.impersonators]
    if not shared or first.mode is not second.mode:
        return
    targets = [target for target in first.targets if target not in second.targets]
    actions = [request_info for request_info in second.actions() if not first.covers(request_info)]
    if targets and actions:
        yield (
            f"{describe_subject(shared[0])} may act as {targets[0].name} ({first.name}) also to "
            f"{_deed(actions[0].verb, actions[0].resource or actions[0].path)} ({second.name}): "
            f"within {first.mode} every target goes with every action"
        )


def _deed(verb: str, what: str) -> str:
    return f"{verb} {what}"


def _existing(intent: Intent, subject: Subject, rbac: RBACSnapshot) -> Iterator[str]:
    user = user_for_subject(subject)
    for binding in rbac.bindings:
        if binding.name == intent.name or not binding.applies_to(user):
            continue
        where = f"in {binding.namespace}" if binding.namespace else "everywhere"
        for rule in binding.rules:
            for what in _kinds(rule, intent):
                holder = describe_subject(subject)
                yield f"{holder} already has {binding.role} {where}, which {what}"


def _kinds(rule: Rule, intent: Intent) -> Iterator[str]:
    mode = intent.mode
    if is_legacy(rule):
        yield "is legacy impersonation: bound to no action, so that this intent constrains nothing"
    elif _STAR in rule.verbs and (rule.resources or rule.paths):
        yield "has the verb *: every action and every identity of its resources, in every mode"
    elif mode.identity_verb in rule.verbs and _AUTHENTICATION in rule.groups:
        if mode is not ImpersonationMode.ASSOCIATED_NODE:
            named = ", ".join(rule.names) or "all names"
            yield (
                f"opens {', '.join(rule.resources)} ({named}) in {mode}: "
                "the actions of this intent hold for them, too"
            )
    else:
        verbs = [verb for verb in rule.verbs if verb.startswith(mode.action_verb(""))]
        if verbs:
            things = ", ".join(rule.resources or rule.paths)
            yield f"allows {', '.join(verbs)} on {things}: as the targets of this intent, too"


def is_legacy(rule: Rule) -> bool:
    """Tell whether a rule is about impersonation of old, whether by its verb or by a star."""
    if not {"impersonate", _STAR} & set(rule.verbs):
        return False
    in_core = {"", _STAR} & set(rule.groups)
    return bool(in_core) and bool({_STAR, *_LEGACY_RESOURCES} & set(rule.resources))
