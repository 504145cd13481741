"""Findings about action rules (`impersonate-on:MODE:VERB`) that do not work as written."""

from collections.abc import Iterator, Sequence

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.lint.finding import (
    AUTHENTICATION,
    STAR,
    Finding,
    RuleLocation,
    action_verbs,
    comma_separated,
)
from proxy.core.rbac.resources import APIResource, ResourceCatalog

_VERBS_WITHOUT_NAME = frozenset({"create", "deletecollection"})
_STREAMS = frozenset({"pods/exec", "pods/attach", "pods/portforward"})
_STREAM_VERBS = frozenset({"get", "create"})


def action_findings(location: RuleLocation, catalog: ResourceCatalog) -> Iterator[Finding]:
    """Yield the findings about one action rule."""
    if not action_verbs(location.rule):
        return
    if location.rule.paths:
        yield from _paths(location)
        return
    for position, resource in enumerate(location.rule.resources):
        finding = _resource(location, resource, f".resources[{position}]", catalog)
        if finding is not None:
            yield finding
    yield from _names(location)


def stream_findings(locations: Sequence[RuleLocation]) -> Iterator[Finding]:
    """Yield a finding for each stream that a role allows by get or by create only."""
    held: dict[tuple[str, ImpersonationMode], dict[str, RuleLocation]] = {}
    for location in locations:
        for mode, verb in action_verbs(location.rule):
            for resource in _STREAMS.intersection(location.rule.resources):
                held.setdefault((resource, mode), {}).setdefault(verb, location)
    for (resource, mode), verbs in sorted(held.items()):
        missing = _STREAM_VERBS.difference(verbs)
        if len(missing) == 1 and STAR not in verbs:
            location = next(iter(verbs.values()))
            missing_verb = mode.action_verb(*missing)
            yield location.warning(
                "half-a-stream",
                ".verbs",
                f"clients open {resource} by get (WebSocket) or by create (SPDY); "
                f"{missing_verb} is missing",
                f"add {missing_verb}",
            )


def _resource(
    location: RuleLocation, resource: str, where: str, catalog: ResourceCatalog
) -> Finding | None:
    groups = location.rule.groups
    kind, _, subresource = resource.partition("/")
    if resource == STAR or STAR in groups:
        return None
    if kind != STAR and subresource == STAR:
        return location.error(
            "no-pattern",
            where,
            f"{resource} is not a pattern: it matches no subresource",
            "name the subresources",
        )
    known = [found for group in groups if (found := catalog.find(group, resource)) is not None]
    if known:
        return _scope(location, where, resource, is_namespaced=known[0].is_namespaced)
    is_open = not all(catalog.knows_group(group) for group in groups)
    if is_open or (kind == STAR and catalog.has_subresource(subresource)):
        return None
    return _unknown_resource(location, resource, where, catalog)


def _unknown_resource(
    location: RuleLocation, resource: str, where: str, catalog: ResourceCatalog
) -> Finding:
    groups = location.rule.groups
    meant = catalog.suggest(groups[0] if groups else "", resource)
    if groups == (AUTHENTICATION,):
        group = repr(meant.group) if meant else "of the resource"
        return location.error(
            "action-group",
            ".apiGroups",
            f"only identities are in {AUTHENTICATION}; actions are checked in the API group of "
            "their resource",
            f"write the API group {group} for {meant.name if meant else resource}",
        )
    names = comma_separated(repr(group) for group in groups)
    return location.error(
        "unknown-resource",
        where,
        f"there is no {resource} in the API group {names}, so the rule never matches",
        f"write {_notation(meant)}" if meant else "look it up: kubectl api-resources",
    )


def _notation(meant: APIResource) -> str:
    return f"{meant.name} (apiGroups: [{meant.group!r}])"


def _scope(
    location: RuleLocation, where: str, resource: str, *, is_namespaced: bool
) -> Finding | None:
    # The check for a Namespace object has its own name as namespace.
    if is_namespaced or not location.is_namespaced or resource.partition("/")[0] == "namespaces":
        return None
    return location.error(
        "namespaced-action",
        where,
        f"{resource} are cluster-scoped, so a Role never grants them",
        "write a ClusterRole and bind it with a ClusterRoleBinding",
    )


def _names(location: RuleLocation) -> Iterator[Finding]:
    rule = location.rule
    plain = [resource for resource in rule.resources if "/" not in resource]
    if not rule.names or not plain:
        return
    verbs = {verb for _, verb in action_verbs(rule)}
    nameless = sorted(verbs & _VERBS_WITHOUT_NAME)
    if nameless:
        yield location.error(
            "names-never-come",
            ".resourceNames",
            f"requests to {comma_separated(nameless)} {comma_separated(plain)} have no name, "
            "so a rule with names "
            "never matches",
            "move them to a rule without resourceNames",
        )
    if not verbs.isdisjoint({"list", "watch"}):
        yield location.note(
            "names-need-selector",
            ".resourceNames",
            "list and watch have a name only if the client selects one by "
            "fieldSelector=metadata.name=NAME",
            "move them to a rule without resourceNames, unless this is intended",
        )


def _paths(location: RuleLocation) -> Iterator[Finding]:
    if location.is_namespaced:
        yield location.error(
            "namespaced-action",
            ".nonResourceURLs",
            "paths are cluster-scoped, and the API server rejects such a Role",
            "write a ClusterRole and bind it with a ClusterRoleBinding",
        )
    for position, path in enumerate(location.rule.paths):
        if path != STAR and (not path.startswith("/") or STAR in path.rstrip(STAR)):
            yield location.error(
                "no-pattern",
                f".nonResourceURLs[{position}]",
                f"{path} matches no path: must begin with /, and * is a wildcard only at the end",
                "write whole paths, or PREFIX*",
            )
