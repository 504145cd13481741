"""Mistakes in RBAC for impersonation: rules that never match, and rules that match too much.

RBAC takes any text for a verb, a group or a resource, so that a mistake is a valid object which
does nothing, or which makes others do nothing. Only impersonation is looked at here.
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
    """Return every mistake, in the order of the documents.

    `is_complete` says that these are all roles and bindings that there are.
    """
    objects = [one for source in sources for one in _unpacked(source)]
    roles = {
        (one.kind, one.namespace, one.name): _places(one)
        for one in objects
        if _is_rbac(one) and one.kind in _ROLES
    }
    findings: list[Finding] = []
    for places in roles.values():
        for place in places:
            findings += verb_findings(place)
            findings += identity_findings(place)
            findings += action_findings(place, catalog)
        findings += stream_findings(places)
    bindings = [one for one in objects if _is_rbac(one) and one.kind in _BINDINGS]
    findings += binding_findings(LintScope(roles, bindings, _accounts(objects), is_complete))
    positions = {id(one): position for position, one in enumerate(objects)}
    return sorted(_once(findings), key=lambda one: (positions[id(one.source)], one.path))


def _unpacked(source: ManifestSource) -> Iterator[ManifestSource]:
    """Give the objects of a list, or the object itself."""
    if source.kind != "List" and not (source.kind.endswith("List") and _is_rbac(source)):
        yield source
        return
    for position, item in enumerate(mapping_list(source.content.get("items"))):
        # The items of a typed list do not say what they are.
        named = {"apiVersion": source.content.get("apiVersion"), "kind": source.kind[:-4], **item}
        path = f"{source.path}.items[{position}]"
        yield from _unpacked(ManifestSource(source.file, source.document, named, path))


def _is_rbac(source: ManifestSource) -> bool:
    return string_at(source.content, "apiVersion").startswith(f"{RBAC_GROUP}/")


def _places(source: ManifestSource) -> list[RuleLocation]:
    rules = source.content.get("rules")
    found = rules if isinstance(rules, list) else []
    return [
        RuleLocation(source, f"{source.path}.rules[{position}]", read_rule(rule))
        for position, rule in enumerate(found)
        if isinstance(rule, Mapping)
    ]


def _accounts(objects: Iterable[ManifestSource]) -> frozenset[tuple[str, str]]:
    return frozenset((one.namespace, one.name) for one in objects if one.kind == "ServiceAccount")


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each place and mistake, the worst."""
    found: dict[tuple[int, str, str], Finding] = {}
    for finding in sorted(findings, key=lambda one: _ORDER.index(one.severity)):
        found.setdefault((id(finding.source), finding.path, finding.code), finding)
    return list(found.values())
