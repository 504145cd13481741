"""The rules that answer given checks with yes: few of them, and none allows anything else."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import Rule, path_matches

_Key = TypeVar("_Key", bound=Hashable)


class _Atom(NamedTuple):
    """What one check asks for; without a name, the rule is about all of them."""

    verb: str
    group: str
    resource: str
    name: str


def scoped_rules(checks: Iterable[AccessCheck]) -> dict[str, tuple[Rule, ...]]:
    """Return the rules that checks need, by namespace; those of the whole cluster are under ''.

    What holds everywhere is not said again in a namespace.
    """
    by_namespace: dict[str, list[AccessCheck]] = {}
    for check in checks:
        by_namespace.setdefault(check.namespace, []).append(check)
    everywhere = _rules(by_namespace.pop("", []))
    scopes = {"": everywhere} if everywhere else {}
    for namespace in sorted(by_namespace):
        left = [check for check in by_namespace[namespace] if not _allowed(everywhere, check)]
        if left:
            scopes[namespace] = _rules(left)
    return scopes


def _allowed(rules: Iterable[Rule], check: AccessCheck) -> bool:
    return any(rule.allows(check) for rule in rules)


def _rules(checks: Iterable[AccessCheck]) -> tuple[Rule, ...]:
    atoms: set[_Atom] = set()
    paths: set[tuple[str, str]] = set()
    for check in checks:
        if check.is_resource:
            atoms.add(_atom(check))
        else:
            paths.add((check.verb, check.path))
    return (*_resource_rules(atoms), *_path_rules(paths))


def _atom(check: AccessCheck) -> _Atom:
    resource = f"{check.resource}/{check.subresource}" if check.subresource else check.resource
    # The own node is asked for by the name `*`, which stands for no node; the usual rule for it
    # has no names.
    name = "" if check.verb == ImpersonationMode.ASSOCIATED_NODE.identity_verb else check.name
    return _Atom(check.verb, check.group, resource, name)


def _resource_rules(atoms: set[_Atom]) -> list[Rule]:
    """Merge what differs in one thing only, one thing after the other: nothing is added by it."""
    # After this, a verb on a resource comes with names or without, never both ways.
    needed = [atom for atom in atoms if not atom.name or atom._replace(name="") not in atoms]
    verbs = _gathered((atom[1:], atom.verb) for atom in needed)
    names = _gathered(
        ((group, resource, held), name) for (group, resource, name), held in verbs.items()
    )
    resources = _gathered(
        ((group, named, held), resource) for (group, resource, held), named in names.items()
    )
    groups = _gathered(
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
    verbs = _gathered((path, verb) for verb, path in needed)
    merged = _gathered((held, path) for path, held in verbs.items())
    return [Rule(held, paths=listed) for held, listed in sorted(merged.items())]


def _gathered(pairs: Iterable[tuple[_Key, str]]) -> Mapping[_Key, tuple[str, ...]]:
    """Return what comes with each key, sorted and each once."""
    found: dict[_Key, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: tuple(sorted(values)) for key, values in found.items()}
