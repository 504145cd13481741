"""Discovery of resources by name: `po`, `pods`, `deployments.apps` or `deployments.v1.apps`."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from proxy.analysis.cluster import Cluster, ClusterError, Object
from proxy.core.requestinfo.request_info import ResourceKind

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


class DiscoveredResource(NamedTuple):
    """A resource and all its names."""

    kind: ResourceKind
    names: frozenset[str]


async def find_resource(cluster: Cluster, text: str) -> ResourceKind | None:
    """Return the resource with this name, or the API server's preferred one of several."""
    resource, _, rest = text.lower().partition(".")
    for known in await known_resources(cluster):
        kind = known.kind
        groups = {"", kind.group, f"{kind.version}.{kind.group}".rstrip(".")}
        if resource in known.names and rest in groups:
            return kind
    return None


def resource_from_name(text: str) -> ResourceKind:
    """Return a resource that is not in discovery, derived from its name."""
    resource, _, group = text.partition(".")
    return ResourceKind(group, "v1", resource, is_namespaced=True)


async def known_resources(cluster: Cluster) -> list[DiscoveredResource]:
    """Return every resource that the API server serves, preferred versions first."""
    known: list[DiscoveredResource] = []
    for root in ("/api", "/apis"):
        document = await cluster.get(root, accept=_AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            known += _aggregated(document)
        elif root == "/api":
            known += _from_resource_list("", "v1", await cluster.get("/api/v1"))
        else:
            known += await _discover_groups(cluster, document)
    return known


def _aggregated(document: Object) -> Iterator[DiscoveredResource]:
    for group in document.get("items") or []:
        name = (group.get("metadata") or {}).get("name", "")
        for version in group.get("versions") or []:
            for entry in version.get("resources") or []:
                is_namespaced = entry.get("scope") == "Namespaced"
                kind = ResourceKind(name, version["version"], entry["resource"], is_namespaced)
                other_names = [entry.get("singularResource", "")]
                other_names.append((entry.get("responseKind") or {}).get("kind", ""))
                yield _with_names(kind, other_names, entry)


async def _discover_groups(cluster: Cluster, document: Object) -> list[DiscoveredResource]:
    """Discover group by group, for servers before 1.27. A failing group is left out."""
    versions = [
        (group["name"], version["version"])
        for group in document.get("groups") or []
        for version in group.get("versions") or []
    ]
    known: list[DiscoveredResource] = []
    async with asyncio.TaskGroup() as tasks:
        lists = [tasks.create_task(_list(cluster, *version)) for version in versions]
    for (group, version), done in zip(versions, lists, strict=True):
        known += _from_resource_list(group, version, done.result())
    return known


async def _list(cluster: Cluster, group: str, version: str) -> Object:
    try:
        return await cluster.get(f"/apis/{group}/{version}")
    except ClusterError:
        return {}


def _from_resource_list(group: str, version: str, document: Object) -> Iterator[DiscoveredResource]:
    for entry in document.get("resources") or []:
        if "/" not in entry["name"]:
            is_namespaced = bool(entry.get("namespaced"))
            kind = ResourceKind(group, version, entry["name"], is_namespaced)
            yield _with_names(kind, [entry.get("singularName", ""), entry.get("kind", "")], entry)


def _with_names(
    kind: ResourceKind, other_names: list[str], entry: Mapping[str, Any]
) -> DiscoveredResource:
    names = [kind.resource, *other_names, *(entry.get("shortNames") or [])]
    return DiscoveredResource(kind, frozenset(name.lower() for name in names if name))
