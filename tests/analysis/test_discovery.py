"""Discovery of resources by name, in one document or group by group."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxy.analysis.cluster import Cluster, ClusterError, open_cluster
from proxy.analysis.discovery import find_resource, known_resources, resource_from_name
from proxy.core.requestinfo.request_info import ResourceKind

PODS = ResourceKind("", "v1", "pods", is_namespaced=True)
NODES = ResourceKind("", "v1", "nodes", is_namespaced=False)
DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", is_namespaced=True)
OLD_DEPLOYMENTS = ResourceKind("apps", "v1beta1", "deployments", is_namespaced=True)
# A resource that has the name of another group's resource as well.
OTHER_PODS = ResourceKind("metrics.k8s.io", "v1", "pods", is_namespaced=True)
ALL = [PODS, NODES, DEPLOYMENTS, OLD_DEPLOYMENTS, OTHER_PODS]


def aggregated_group(name: str, **versions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {"version": version, "resources": resources} for version, resources in versions.items()
        ],
    }


def aggregated_resource(
    name: str, kind: str, *short_names: str, scope: str = "Namespaced"
) -> dict[str, Any]:
    return {
        "resource": name,
        "scope": scope,
        "singularResource": kind.lower(),
        "responseKind": {"kind": kind},
        "shortNames": list(short_names),
        "subresources": [{"subresource": "status"}],
    }


def listed_resource(
    name: str, kind: str, *short_names: str, namespaced: bool = True
) -> dict[str, Any]:
    return {
        "name": name,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": namespaced,
        "shortNames": list(short_names),
    }


def group_list(*items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "items": list(items)}


AGGREGATED: Mapping[str, object] = {
    "/api": group_list(
        aggregated_group(
            "",
            v1=[
                aggregated_resource("pods", "Pod", "po"),
                aggregated_resource("nodes", "Node", "no", scope="Cluster"),
            ],
        )
    ),
    "/apis": group_list(
        aggregated_group(
            "apps",
            v1=[aggregated_resource("deployments", "Deployment", "deploy")],
            v1beta1=[aggregated_resource("deployments", "Deployment", "deploy")],
        ),
        aggregated_group("metrics.k8s.io", v1=[aggregated_resource("pods", "PodMetrics")]),
    ),
}
BY_GROUP: Mapping[str, object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {
        "resources": [
            listed_resource("pods", "Pod", "po"),
            listed_resource("pods/status", "Pod"),
            listed_resource("nodes", "Node", "no", namespaced=False),
        ]
    },
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "apps", "versions": [{"version": "v1"}, {"version": "v1beta1"}]},
            {"name": "metrics.k8s.io", "versions": [{"version": "v1"}]},
        ],
    },
    "/apis/apps/v1": {"resources": [listed_resource("deployments", "Deployment", "deploy")]},
    "/apis/apps/v1beta1": {"resources": [listed_resource("deployments", "Deployment", "deploy")]},
    "/apis/metrics.k8s.io/v1": {"resources": [listed_resource("pods", "PodMetrics")]},
}
SERVERS = {"one document": AGGREGATED, "group by group": BY_GROUP}


@asynccontextmanager
async def cluster_with(documents: Mapping[str, object]) -> AsyncIterator[Cluster]:
    """Yield the cluster of an API server with these documents and no others."""

    async def respond(request: web.Request) -> web.Response:
        if request.path not in documents:
            return web.json_response({"message": "unavailable"}, status=503)
        return web.json_response(documents[request.path])

    app = web.Application()
    app.router.add_get("/{path:.*}", respond)
    async with TestServer(app) as server:
        kubeconfig = {
            "current-context": "one",
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("/"))[:-1]}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        async with open_cluster(kubeconfig) as cluster:
            yield cluster


@pytest.mark.parametrize("server", SERVERS)
async def test_every_resource_is_discovered_in_the_order_of_the_server(server: str) -> None:
    async with cluster_with(SERVERS[server]) as cluster:
        known = await known_resources(cluster)

    assert [resource.kind for resource in known] == ALL
    assert known[0].names == {"pods", "pod", "po"}
    assert known[4].names == {"pods", "podmetrics"}


@pytest.mark.parametrize("server", SERVERS)
async def test_resource_is_found_by_each_of_its_names(server: str) -> None:
    expected = {
        "pods": PODS,
        "po": PODS,
        "Pod": PODS,
        "PODS": PODS,
        "pods.v1": PODS,
        "no": NODES,
        "deploy": DEPLOYMENTS,
        "deployments.apps": DEPLOYMENTS,
        "deployments.v1.apps": DEPLOYMENTS,
        "deployments.v1beta1.apps": OLD_DEPLOYMENTS,
        "pods.metrics.k8s.io": OTHER_PODS,
        "podmetrics": OTHER_PODS,
    }
    async with cluster_with(SERVERS[server]) as cluster:
        found = {name: await find_resource(cluster, name) for name in expected}

    assert found == expected


@pytest.mark.parametrize("server", SERVERS)
async def test_resource_is_not_found_by_other_names(server: str) -> None:
    names = ("", "pod1", "pods.apps", "pods.v2", "deployments.v9.apps", "pods/status", "status")
    async with cluster_with(SERVERS[server]) as cluster:
        found = {name: await find_resource(cluster, name) for name in names}

    assert found == dict.fromkeys(names)


async def test_group_that_fails_is_left_out() -> None:
    documents = {path: text for path, text in BY_GROUP.items() if path != "/apis/apps/v1"}
    async with cluster_with(documents) as cluster:
        known = await known_resources(cluster)

    assert [resource.kind for resource in known] == [PODS, NODES, OLD_DEPLOYMENTS, OTHER_PODS]


@pytest.mark.parametrize("missing", ["/api", "/api/v1", "/apis"])
async def test_failing_core_discovery_is_an_error(missing: str) -> None:
    documents = {path: text for path, text in BY_GROUP.items() if path != missing}
    async with cluster_with(documents) as cluster:
        with pytest.raises(ClusterError, match="503: unavailable"):
            await known_resources(cluster)


@pytest.mark.parametrize("empty", [{}, {"items": None, "groups": None, "resources": None}])
async def test_empty_documents_have_no_resources(empty: dict[str, None]) -> None:
    kinds = {"aggregated": {"kind": "APIGroupDiscoveryList"}, "listed": {"kind": "APIVersions"}}
    for kind in kinds.values():
        document = {**kind, **empty}
        async with cluster_with(dict.fromkeys(("/api", "/api/v1", "/apis"), document)) as cluster:
            assert await known_resources(cluster) == []


@pytest.mark.parametrize(
    ("name", "group", "resource"),
    [("horns", "", "horns"), ("horns.unicorn.io", "unicorn.io", "horns")],
)
def test_resource_outside_discovery_is_named_by_its_text(
    name: str, group: str, resource: str
) -> None:
    assert resource_from_name(name) == ResourceKind(group, "v1", resource, is_namespaced=True)
