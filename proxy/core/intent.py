"""What somebody means to allow: who may act as whom, and for what. RBAC is made of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from proxy.core.action import Action
from proxy.core.catalogue import Resource
from proxy.core.grants import ANY, GrantObject, Need, grant_objects
from proxy.core.identity import Identity
from proxy.core.modes import Mode
from proxy.core.plan import opens_terminal
from proxy.core.rbac import Subject, path_matches

DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version")
"""What kubectl and other clients visit before the deed itself."""

COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})
"""Verbs that never come with a subresource."""

OWN_NODE = Identity(f"system:node:{ANY}")
"""The node that a service account runs on, whichever that is."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Verbs on resources or paths. Without names all are meant, and so are all namespaces.

    Resources of the cluster are in no namespace, whatever is said here.
    """

    verbs: tuple[str, ...]
    resources: tuple[Resource, ...] = ()
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
    mode: Mode
    impersonators: tuple[Subject, ...]
    targets: tuple[Identity, ...]
    deeds: tuple[Deed, ...]
    discovers: bool = True
    is_exact: bool = False

    def actions(self) -> tuple[Action, ...]:
        """Return everything that is meant to be done, each once; paths may be patterns."""
        found: dict[Action, None] = {}
        for deed in self.deeds:
            for action in _actions(deed):
                found.update(dict.fromkeys(_together(action, is_exact=self.is_exact)))
        if self.discovers:
            found.update(dict.fromkeys(Action("get", path) for path in DISCOVERY))
        return tuple(found)

    def needs(self) -> list[Need]:
        """Return what the impersonators need for it."""
        actions = self.actions()
        return [
            Need(subject, self.mode, target, actions, has_patterns=True)
            for subject, target in product(self.impersonators, self.targets)
        ]

    def objects(self) -> list[GrantObject]:
        """Return the roles and bindings that allow it. Raises Ungrantable."""
        return grant_objects(self.needs(), name=self.name)

    def means_action(self, action: Action) -> bool:
        """Tell whether this is meant to be done, by whomever and as whomever."""
        return any(_covers(meant, action) for meant in self.actions())


def _actions(deed: Deed) -> Iterator[Action]:
    for verb, path in product(deed.verbs, deed.paths):
        yield Action(verb, path)
    names, namespaces = deed.names or ("",), deed.namespaces or ("",)
    for verb, resource, name in product(deed.verbs, deed.resources, names):
        if verb in COLLECTION_VERBS and "/" in resource.name:
            continue
        for namespace in namespaces if resource.is_namespaced else ("",):
            yield action_on(verb, resource, name=name, namespace=namespace)


def action_on(verb: str, resource: Resource, *, name: str = "", namespace: str = "") -> Action:
    """Return a verb on a resource as an action; it comes from no request, so it has no path."""
    kind, _, subresource = resource.name.partition("/")
    return Action(
        verb,
        "",
        is_resource=True,
        group=resource.group,
        namespace=namespace,
        resource=kind,
        name=name,
        subresource=subresource,
    )


def _together(action: Action, *, is_exact: bool) -> list[Action]:
    if is_exact or not action.is_resource:
        return [action]
    if action.verb in {"get", "create"} and opens_terminal(_with_verb(action, "get")):
        return [_with_verb(action, "get"), _with_verb(action, "create")]
    if action.verb == "list":
        return [action, _with_verb(action, "watch")]
    return [action]


def _with_verb(action: Action, verb: str) -> Action:
    return replace(action, verb=verb)


def _covers(meant: Action, action: Action) -> bool:
    if meant.verb != action.verb or meant.is_resource != action.is_resource:
        return False
    if not meant.is_resource:
        return path_matches(meant.path, action.path)
    same = (meant.group, meant.resource, meant.subresource)
    return (
        same == (action.group, action.resource, action.subresource)
        and meant.namespace in {"", action.namespace}
        and meant.name in {"", action.name}
    )
