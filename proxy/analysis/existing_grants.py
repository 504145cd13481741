"""Grants in a cluster that Understudy made: found by their label, and removed by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from proxy.analysis.cluster import Cluster, Object
from proxy.core.rbac.grants import (
    CALLER_ANNOTATION,
    MADE_AT_ANNOTATION,
    MANAGED_BY_LABEL,
    MANAGER,
    PURPOSE_ANNOTATION,
    TARGET_ANNOTATION,
)
from proxy.core.rbac.model import RBAC_GROUP

RBAC_KIND = "RBAC"
"""Kind of a grant that consists of roles and bindings."""
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class ExistingGrant:
    """Objects of one name in one namespace. Without a namespace they are cluster-wide."""

    name: str
    namespace: str
    callers: tuple[str, ...]
    """User, group and service account names of the bindings' subjects."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    """Bindings first: without them a role allows nothing."""
    kind: str = RBAC_KIND

    @property
    def target(self) -> str:
        """The impersonated user, as recorded when the grant was made."""
        return self.annotations.get(TARGET_ANNOTATION, _UNKNOWN)

    @property
    def purpose(self) -> str:
        """The allowed actions, as recorded."""
        return self.annotations.get(PURPOSE_ANNOTATION, _UNKNOWN)

    @property
    def made_at(self) -> str:
        """When the grant was made."""
        return self.annotations.get(MADE_AT_ANNOTATION, _UNKNOWN)

    def is_for(self, caller: str) -> bool:
        """Return whether the grant is for this caller only."""
        return self.callers == (caller,) or self.annotations.get(CALLER_ANNOTATION) == caller


async def find_grants(cluster: Cluster) -> list[ExistingGrant]:
    """Return every grant with the label of Understudy, by namespace and name."""
    rbac = await cluster.rbac()
    found: dict[tuple[str, str], ExistingGrant] = {}
    for plural, objects in (
        ("clusterrolebindings", rbac.cluster_role_bindings),
        ("rolebindings", rbac.role_bindings),
        ("clusterroles", rbac.cluster_roles),
        ("roles", rbac.roles),
    ):
        for manifest in objects:
            if _labels(manifest).get(MANAGED_BY_LABEL) == MANAGER:
                one = _read(plural, manifest)
                key = (one.namespace, one.name)
                found[key] = _merged(found[key], one) if key in found else one
    return [found[key] for key in sorted(found)]


async def delete_grant(cluster: Cluster, grant: ExistingGrant) -> list[str]:
    """Delete the objects of a grant, bindings first, and return their paths."""
    for path in grant.paths:
        await cluster.delete(path)
    return list(grant.paths)


def _read(plural: str, manifest: Object) -> ExistingGrant:
    metadata = manifest.get("metadata") or {}
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "")
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    annotations = metadata.get("annotations") or {}
    made_at = metadata.get("creationTimestamp")
    return ExistingGrant(
        name,
        namespace,
        tuple(dict.fromkeys(_subjects(manifest.get("subjects") or []))),
        {**({MADE_AT_ANNOTATION: str(made_at)} if made_at else {}), **annotations},
        (f"/apis/{RBAC_GROUP}/v1{scope}/{plural}/{quote(name, safe='')}",),
    )


def _merged(one: ExistingGrant, other: ExistingGrant) -> ExistingGrant:
    return ExistingGrant(
        one.name,
        one.namespace,
        one.callers or other.callers,
        {**other.annotations, **one.annotations},
        one.paths + other.paths,
    )


def _subjects(subjects: Iterable[Object]) -> Iterable[str]:
    for subject in subjects:
        name = str(subject.get("name", ""))
        namespace = subject.get("namespace")
        yield f"system:serviceaccount:{namespace}:{name}" if namespace else name


def _labels(manifest: Object) -> Mapping[str, object]:
    labels = (manifest.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}
