"""Rules about what may be done while impersonating that do not do what they say."""

from collections.abc import Iterator, Sequence

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.lint.finding import (
    AUTHENTICATION,
    STAR,
    Finding,
    RuleLocation,
    action_verbs,
    listed,
)
from proxy.core.rbac.resources import APIResource, ResourceCatalog

_NAMELESS = frozenset({"create", "deletecollection"})
_STREAMS = frozenset({"pods/exec", "pods/attach", "pods/portforward"})
_BOTH_WAYS = frozenset({"get", "create"})


def action_findings(place: RuleLocation, catalog: ResourceCatalog) -> Iterator[Finding]:
    """Give what is wrong with one rule about actions."""
    if not action_verbs(place.rule):
        return
    if place.rule.paths:
        yield from _paths(place)
        return
    for position, resource in enumerate(place.rule.resources):
        finding = _resource(place, resource, f".resources[{position}]", catalog)
        if finding is not None:
            yield finding
    yield from _names(place)


def stream_findings(places: Sequence[RuleLocation]) -> Iterator[Finding]:
    """Give the streams of one role that can be opened in one of two ways only."""
    held: dict[tuple[str, ImpersonationMode], dict[str, RuleLocation]] = {}
    for place in places:
        for mode, verb in action_verbs(place.rule):
            for resource in _STREAMS.intersection(place.rule.resources):
                held.setdefault((resource, mode), {}).setdefault(verb, place)
    for (resource, mode), verbs in sorted(held.items()):
        missing = _BOTH_WAYS.difference(verbs)
        if len(missing) == 1 and STAR not in verbs:
            place = next(iter(verbs.values()))
            lacked = mode.action_verb(*missing)
            yield place.warning(
                "half-a-stream",
                ".verbs",
                f"{resource} is opened by get (WebSocket) or by create (SPDY), as the client "
                f"prefers; {lacked} is missing",
                f"add {lacked}",
            )


def _resource(
    place: RuleLocation, resource: str, where: str, catalog: ResourceCatalog
) -> Finding | None:
    groups = place.rule.groups
    kind, _, subresource = resource.partition("/")
    if resource == STAR or STAR in groups:
        return None
    if kind != STAR and subresource == STAR:
        return place.error(
            "no-pattern",
            where,
            f"{resource} is no pattern: it matches no subresource",
            "name the subresources",
        )
    known = [found for group in groups if (found := catalog.find(group, resource)) is not None]
    if known:
        return _scope(place, where, resource, is_namespaced=known[0].is_namespaced)
    is_open = not all(catalog.knows_group(group) for group in groups)
    if is_open or (kind == STAR and catalog.has_subresource(subresource)):
        return None
    return _missing(place, resource, where, catalog)


def _missing(place: RuleLocation, resource: str, where: str, catalog: ResourceCatalog) -> Finding:
    groups = place.rule.groups
    meant = catalog.suggest(groups[0] if groups else "", resource)
    if groups == (AUTHENTICATION,):
        group = repr(meant.group) if meant else "of what is acted on"
        return place.error(
            "action-group",
            ".apiGroups",
            f"only identities are in {AUTHENTICATION}; actions are asked for in the API group of "
            "what is acted on",
            f"write the API group {group} for {meant.name if meant else resource}",
        )
    named = listed(repr(group) for group in groups)
    return place.error(
        "unknown-resource",
        where,
        f"there is no {resource} in the API group {named}, so the rule never matches",
        f"write {_spelled(meant)}" if meant else "look it up: kubectl api-resources",
    )


def _spelled(meant: APIResource) -> str:
    return f"{meant.name} (apiGroups: [{meant.group!r}])"


def _scope(
    place: RuleLocation, where: str, resource: str, *, is_namespaced: bool
) -> Finding | None:
    # A namespace is asked for inside itself.
    if is_namespaced or not place.is_namespaced or resource.partition("/")[0] == "namespaces":
        return None
    return place.error(
        "namespaced-action",
        where,
        f"{resource} are in no namespace, so a Role never opens them",
        "write a ClusterRole and bind it with a ClusterRoleBinding",
    )


def _names(place: RuleLocation) -> Iterator[Finding]:
    rule = place.rule
    plain = [resource for resource in rule.resources if "/" not in resource]
    if not rule.names or not plain:
        return
    verbs = {verb for _, verb in action_verbs(rule)}
    nameless = sorted(verbs & _NAMELESS)
    if nameless:
        yield place.error(
            "names-never-come",
            ".resourceNames",
            f"{listed(nameless)} of {listed(plain)} come without a name, so a rule with names "
            "never matches",
            "put them into a rule without resourceNames",
        )
    if not verbs.isdisjoint({"list", "watch"}):
        yield place.comment(
            "names-need-selector",
            ".resourceNames",
            "list and watch have a name only if the client selects one by "
            "fieldSelector=metadata.name=NAME",
            "put them into a rule without resourceNames, unless that is meant",
        )


def _paths(place: RuleLocation) -> Iterator[Finding]:
    if place.is_namespaced:
        yield place.error(
            "namespaced-action",
            ".nonResourceURLs",
            "paths are in no namespace, and the API server refuses such a Role",
            "write a ClusterRole and bind it with a ClusterRoleBinding",
        )
    for position, path in enumerate(place.rule.paths):
        if path != STAR and (not path.startswith("/") or STAR in path.rstrip(STAR)):
            yield place.error(
                "no-pattern",
                f".nonResourceURLs[{position}]",
                f"{path} matches no path: it must begin with / and a star counts at its end only",
                "write whole paths, or PREFIX*",
            )
