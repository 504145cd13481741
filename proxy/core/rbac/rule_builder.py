"""Minimal RBAC rules for a set of access checks. They allow these checks and nothing else."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import Rule, path_matches

_Key = TypeVar("_Key", bound=Hashable)


class _Permission(NamedTuple):
    """The permission that one check needs. Without a name, it covers all names."""

    verb: str
    group: str
    resource: str
    name: str


def scoped_rules(checks: Iterable[AccessCheck]) -> dict[str, tuple[Rule, ...]]:
    """Return the rules that checks need, by namespace. Cluster-wide rules are under ''.

    A permission that is granted cluster-wide is not repeated in a namespace.
    """
    by_namespace: dict[str, list[AccessCheck]] = {}
    for check in checks:
        by_namespace.setdefault(check.namespace, []).append(check)
    cluster_wide = _rules(by_namespace.pop("", []))
    scopes = {"": cluster_wide} if cluster_wide else {}
    for namespace in sorted(by_namespace):
        remaining = [
            check for check in by_namespace[namespace] if not _allowed(cluster_wide, check)
        ]
        if remaining:
            scopes[namespace] = _rules(remaining)
    return scopes


def _allowed(rules: Iterable[Rule], check: AccessCheck) -> bool:
    return any(rule.allows(check) for rule in rules)


def _rules(checks: Iterable[AccessCheck]) -> tuple[Rule, ...]:
    permissions: set[_Permission] = set()
    paths: set[tuple[str, str]] = set()
    for check in checks:
        if check.is_resource:
            permissions.add(_permission(check))
        else:
            paths.add((check.verb, check.path))
    return (*_resource_rules(permissions), *_path_rules(paths))


def _permission(check: AccessCheck) -> _Permission:
    resource = f"{check.resource}/{check.subresource}" if check.subresource else check.resource
    # The check for the associated node has the name `*`, which is not a node. The usual rule for it
    # has no names.
    name = "" if check.verb == ImpersonationMode.ASSOCIATED_NODE.identity_verb else check.name
    return _Permission(check.verb, check.group, resource, name)


def _resource_rules(permissions: set[_Permission]) -> list[Rule]:
    """Merge permissions that differ in one attribute, attribute by attribute. This adds none."""
    # After this, each verb on a resource has either names or no names, never both.
    needed = [
        permission
        for permission in permissions
        if not permission.name or permission._replace(name="") not in permissions
    ]
    verbs = _group_by_key((permission[1:], permission.verb) for permission in needed)
    names = _group_by_key(
        ((group, resource, held), name) for (group, resource, name), held in verbs.items()
    )
    resources = _group_by_key(
        ((group, named, held), resource) for (group, resource, held), named in names.items()
    )
    groups = _group_by_key(
        ((held, merged, named), group) for (group, named, held), merged in resources.items()
    )
    rules = [
        Rule(held, merged_groups, merged, tuple(name for name in named if name))
        for (held, merged, named), merged_groups in groups.items()
    ]
    return sorted(rules, key=lambda rule: (rule.groups, rule.resources, rule.names, rule.verbs))


def _path_rules(paths: set[tuple[str, str]]) -> list[Rule]:
    needed = [
        (verb, path)
        for verb, path in paths
        if not any(
            verb == other_verb and path != other and path_matches(other, path)
            for other_verb, other in paths
        )
    ]
    verbs = _group_by_key((path, verb) for verb, path in needed)
    merged = _group_by_key((held, path) for path, held in verbs.items())
    return [Rule(held, paths=listed) for held, listed in sorted(merged.items())]


def _group_by_key(pairs: Iterable[tuple[_Key, str]]) -> Mapping[_Key, tuple[str, ...]]:
    """Return the values of each key, sorted and without duplicates."""
    found: dict[_Key, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: tuple(sorted(values)) for key, values in found.items()}
