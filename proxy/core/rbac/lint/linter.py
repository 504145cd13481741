"""Linter of RBAC for impersonation: finds rules that never match or that match too much.

RBAC accepts any text as verb, group or resource. So a mistake is a valid object that has no effect,
or that defeats other objects. Only impersonation rules are checked.
"""

from collections.abc import Iterable, Iterator, Mapping

from proxy.core.rbac.lint.actions import action_findings, stream_findings
from proxy.core.rbac.lint.bindings import LintScope, binding_findings
from proxy.core.rbac.lint.finding import (
    Finding,
    ManifestSource,
    RuleLocation,
    Severity,
)
from proxy.core.rbac.lint.identities import identity_findings
from proxy.core.rbac.lint.verbs import verb_findings
from proxy.core.rbac.model import (
    RBAC_GROUP,
    mapping_list,
    read_rule,
    string_at,
)
from proxy.core.rbac.resources import BUILT_IN, ResourceCatalog

_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_ORDER = list(Severity)


def lint(
    sources: Iterable[ManifestSource],
    catalog: ResourceCatalog = BUILT_IN,
    *,
    is_complete: bool = False,
) -> list[Finding]:
    """Return every finding, in the order of the documents.

    `is_complete` says that no other roles and bindings exist.
    """
    objects = [item for source in sources for item in _unpacked(source)]
    roles = {
        (role.kind, role.namespace, role.name): _locations(role)
        for role in objects
        if _is_rbac(role) and role.kind in _ROLES
    }
    findings: list[Finding] = []
    for locations in roles.values():
        for location in locations:
            findings += verb_findings(location)
            findings += identity_findings(location)
            findings += action_findings(location, catalog)
        findings += stream_findings(locations)
    bindings = [item for item in objects if _is_rbac(item) and item.kind in _BINDINGS]
    findings += binding_findings(LintScope(roles, bindings, _accounts(objects), is_complete))
    positions = {id(item): position for position, item in enumerate(objects)}
    return sorted(
        _without_duplicates(findings),
        key=lambda finding: (positions[id(finding.source)], finding.path),
    )


def _unpacked(source: ManifestSource) -> Iterator[ManifestSource]:
    """Yield the objects of a list, or the object itself."""
    if source.kind != "List" and not (source.kind.endswith("List") and _is_rbac(source)):
        yield source
        return
    for position, item in enumerate(mapping_list(source.content.get("items"))):
        # The items of a typed list have no apiVersion and kind.
        typed = {"apiVersion": source.content.get("apiVersion"), "kind": source.kind[:-4], **item}
        path = f"{source.path}.items[{position}]"
        yield from _unpacked(ManifestSource(source.file, source.document, typed, path))


def _is_rbac(source: ManifestSource) -> bool:
    return string_at(source.content, "apiVersion").startswith(f"{RBAC_GROUP}/")


def _locations(source: ManifestSource) -> list[RuleLocation]:
    rules = source.content.get("rules")
    found = rules if isinstance(rules, list) else []
    return [
        RuleLocation(source, f"{source.path}.rules[{position}]", read_rule(rule))
        for position, rule in enumerate(found)
        if isinstance(rule, Mapping)
    ]


def _accounts(objects: Iterable[ManifestSource]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (item.namespace, item.name) for item in objects if item.kind == "ServiceAccount"
    )


def _without_duplicates(findings: Iterable[Finding]) -> list[Finding]:
    """Return the most severe finding for each location and code."""
    found: dict[tuple[int, str, str], Finding] = {}
    for finding in sorted(findings, key=lambda finding: _ORDER.index(finding.severity)):
        found.setdefault((id(finding.source), finding.path, finding.code), finding)
    return list(found.values())
