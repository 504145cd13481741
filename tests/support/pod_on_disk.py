"""What a kubelet does for a pod, done by hand: its volumes as directories, its words expanded.

    pod = create_pod_of(admin, daemon_set, name="agent-1", node="node-1")
    on_disk = PodOnDisk(admin, pod, tmp_path)
    start_child(["understudy", *on_disk.arguments("understudy")], ...)

Paths at which containers mount volumes become paths on this machine (`here`). Everything else is
as the manifest has it: files, modes, and tokens with the audience and the lifetime it names, bound
to the pod.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proxy.sandbox.api_client import ApiClient, Manifest

_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "spec.nodeName": ("spec", "nodeName"),
}
_USUAL_MODE = 0o644


def pod_of(workload: Manifest, *, name: str, node: str) -> Manifest:
    """Return the pod that a Deployment's or DaemonSet's controller would make, on a node."""
    template = workload["spec"]["template"]
    place = {"namespace": workload["metadata"]["namespace"], "name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **place},
        "spec": {**template["spec"], "nodeName": node},
    }


def create_pod_of(admin: ApiClient, workload: Manifest, *, name: str, node: str) -> Manifest:
    """Create that pod, every field of it known to the API server, and return it."""
    path = f"/api/v1/namespaces/{workload['metadata']['namespace']}/pods?fieldValidation=Strict"
    created: Manifest = admin.call("POST", path, body=pod_of(workload, name=name, node=node))
    return created


class PodOnDisk:
    """The volumes of a pod under a directory, and the words of its containers."""

    def __init__(self, admin: ApiClient, pod: Manifest, directory: Path) -> None:
        self._admin = admin
        self._pod = pod
        self._namespace: str = pod["metadata"]["namespace"]
        specification = pod["spec"]
        self._containers: dict[str, Any] = {
            one["name"]: one
            for one in (*specification.get("initContainers", ()), *specification["containers"])
        }
        self._volumes = {one["name"]: directory / one["name"] for one in specification["volumes"]}
        self._mounts = self._mount_paths()
        for volume in specification["volumes"]:
            self._fill(self._volumes[volume["name"]], volume)

    def here(self, text: str) -> str:
        """Return a text with each path of a container replaced by the one on this machine."""
        paths = sorted(self._mounts, key=len, reverse=True)
        pattern = "|".join(map(re.escape, paths))
        return re.sub(rf"(?:{pattern})(?=/|$|\s)", lambda found: str(self._mounts[found[0]]), text)

    def environment(self, container: str) -> dict[str, str]:
        """Return the variables of a container."""
        return {
            one["name"]: one["value"] if "value" in one else self._field(one["valueFrom"])
            for one in self._containers[container].get("env", ())
        }

    def arguments(self, container: str) -> list[str]:
        """Return the arguments of a container, variables put in and paths translated."""
        variables = self.environment(container)
        return [
            self.here(re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word))
            for word in self._containers[container]["args"]
        ]

    def probe(self, container: str, name: str) -> Mapping[str, Any]:
        """Return what a probe asks, a port by its number."""
        described = self._containers[container]
        probe: dict[str, Any] = dict(described[f"{name}Probe"])
        if "httpGet" in probe:
            ports = {one["name"]: one["containerPort"] for one in described["ports"]}
            asked = probe["httpGet"]
            probe["httpGet"] = {**asked, "port": ports.get(asked["port"], asked["port"])}
        return probe

    def _mount_paths(self) -> dict[str, Path]:
        mounts: dict[str, Path] = {}
        for container in self._containers.values():
            for mount in container["volumeMounts"]:
                place = self._volumes[mount["name"]]
                # One text is translated for all containers, so a path means one thing.
                assert mounts.setdefault(mount["mountPath"], place) == place
        return mounts

    def _fill(self, directory: Path, volume: Manifest) -> None:
        directory.mkdir(parents=True)
        source, mode = volume, _USUAL_MODE
        if "projected" in volume:
            sources = volume["projected"]["sources"]
            mode = volume["projected"].get("defaultMode", _USUAL_MODE)
        else:
            sources = [source]
        for one in sources:
            for path, content in self._files(one):
                file = directory / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(mode)

    def _files(self, source: Manifest) -> Iterator[tuple[str, bytes]]:
        match source:
            case {"serviceAccountToken": wanted}:
                yield wanted["path"], self._token(wanted)
            case {"configMap": wanted}:
                found = self._object("configmaps", wanted["name"]).get("data", {})
                yield from _chosen({key: text.encode() for key, text in found.items()}, wanted)
            case {"secret": wanted}:
                found = self._object("secrets", wanted.get("name") or wanted["secretName"])["data"]
                decoded = {key: base64.b64decode(text) for key, text in found.items()}
                yield from _chosen(decoded, wanted)
            case {"downwardAPI": wanted}:
                for item in wanted["items"]:
                    yield item["path"], self._field(item).encode()
            case {"emptyDir": _}:
                return
            case _:
                raise AssertionError(f"no kubelet by hand knows {source}")

    def _token(self, wanted: Manifest) -> bytes:
        account = self._pod["spec"]["serviceAccountName"]
        metadata = self._pod["metadata"]
        specification: dict[str, Any] = {
            "expirationSeconds": wanted["expirationSeconds"],
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        if "audience" in wanted:
            specification["audiences"] = [wanted["audience"]]
        answer = self._admin.call(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": specification,
            },
        )
        token: str = answer["status"]["token"]
        return token.encode()

    def _object(self, plural: str, name: str) -> Any:
        return self._admin.call("GET", f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")

    def _field(self, source: Manifest) -> str:
        section, key = _FIELDS[source["fieldRef"]["fieldPath"]]
        value: str = self._pod[section][key]
        return value


def _chosen(found: Mapping[str, bytes], wanted: Manifest) -> Iterator[tuple[str, bytes]]:
    """Yield what a volume shows of an object: all of it under its keys, or the items it names."""
    if "items" not in wanted:
        yield from found.items()
        return
    for item in wanted["items"]:
        yield item["path"], found[item["key"]]
