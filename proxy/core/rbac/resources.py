"""Catalogue of API resources: groups, scope, short names and likely misspellings.

RBAC does not report misspelled rules: a rule for `pod/exec` is valid, and matches nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_NAMESPACED = {
    "": (
        "bindings configmaps endpoints events limitranges persistentvolumeclaims "
        "persistentvolumeclaims/status pods pods/attach pods/binding pods/ephemeralcontainers "
        "pods/eviction pods/exec pods/log pods/portforward pods/proxy pods/resize pods/status "
        "podtemplates replicationcontrollers replicationcontrollers/scale "
        "replicationcontrollers/status resourcequotas resourcequotas/status secrets "
        "serviceaccounts serviceaccounts/token services services/proxy services/status"
    ),
    "apps": (
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
        "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
        "statefulsets/scale statefulsets/status"
    ),
    "authorization.k8s.io": "localsubjectaccessreviews",
    "autoscaling": "horizontalpodautoscalers horizontalpodautoscalers/status",
    "batch": "cronjobs cronjobs/status jobs jobs/status",
    "certificates.k8s.io": "podcertificaterequests podcertificaterequests/status",
    "coordination.k8s.io": "leases",
    "discovery.k8s.io": "endpointslices",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses ingresses/status networkpolicies",
    "policy": "poddisruptionbudgets poddisruptionbudgets/status",
    "rbac.authorization.k8s.io": "rolebindings roles",
    "resource.k8s.io": "resourceclaims resourceclaims/status resourceclaimtemplates",
    "storage.k8s.io": "csistoragecapacities",
}
_CLUSTER_SCOPED = {
    "": (
        "componentstatuses namespaces namespaces/finalize namespaces/status nodes "
        "nodes/checkpoint nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods "
        "nodes/proxy nodes/stats nodes/status persistentvolumes persistentvolumes/status"
    ),
    "admissionregistration.k8s.io": (
        "mutatingadmissionpolicies mutatingadmissionpolicybindings "
        "mutatingwebhookconfigurations validatingadmissionpolicies "
        "validatingadmissionpolicies/status validatingadmissionpolicybindings "
        "validatingwebhookconfigurations"
    ),
    "apiextensions.k8s.io": "customresourcedefinitions customresourcedefinitions/status",
    "apiregistration.k8s.io": "apiservices apiservices/status",
    "authentication.k8s.io": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io": "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    "certificates.k8s.io": (
        "certificatesigningrequests certificatesigningrequests/approval "
        "certificatesigningrequests/status clustertrustbundles"
    ),
    "flowcontrol.apiserver.k8s.io": (
        "flowschemas flowschemas/status prioritylevelconfigurations "
        "prioritylevelconfigurations/status"
    ),
    "networking.k8s.io": "ingressclasses ipaddresses servicecidrs servicecidrs/status",
    "node.k8s.io": "runtimeclasses",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles",
    "resource.k8s.io": "deviceclasses devicetaintrules devicetaintrules/status resourceslices",
    "scheduling.k8s.io": "priorityclasses",
    "storage.k8s.io": (
        "csidrivers csinodes csinodes/status storageclasses volumeattachments "
        "volumeattachments/status volumeattributesclasses"
    ),
    "storagemigration.k8s.io": "storageversionmigrations storageversionmigrations/status",
}
_SHORT_NAMES = {
    "cj": "cronjobs",
    "cm": "configmaps",
    "crd": "customresourcedefinitions",
    "crds": "customresourcedefinitions",
    "cs": "componentstatuses",
    "csr": "certificatesigningrequests",
    "deploy": "deployments",
    "ds": "daemonsets",
    "ep": "endpoints",
    "ev": "events",
    "hpa": "horizontalpodautoscalers",
    "ing": "ingresses",
    "ip": "ipaddresses",
    "limits": "limitranges",
    "netpol": "networkpolicies",
    "no": "nodes",
    "ns": "namespaces",
    "pc": "priorityclasses",
    "pdb": "poddisruptionbudgets",
    "po": "pods",
    "pv": "persistentvolumes",
    "pvc": "persistentvolumeclaims",
    "quota": "resourcequotas",
    "rc": "replicationcontrollers",
    "rs": "replicasets",
    "sa": "serviceaccounts",
    "sc": "storageclasses",
    "sts": "statefulsets",
    "svc": "services",
    "vac": "volumeattributesclasses",
}
_MIN_SIMILARITY = 0.75


@dataclass(frozen=True, slots=True, order=True)
class APIResource:
    """A resource, or a subresource as `pods/exec`."""

    group: str
    name: str
    is_namespaced: bool = False

    def __str__(self) -> str:
        """Return the resource in kubectl's notation: `deployments.apps/scale`."""
        resource, slash, subresource = self.name.partition("/")
        group = f".{self.group}" if self.group else ""
        return f"{resource}{group}{slash}{subresource}"


class ResourceCatalog:
    """Resources that are known to exist. A group without entries is unknown, not empty."""

    def __init__(self, resources: Iterable[APIResource]) -> None:
        self._known = {(resource.group, resource.name): resource for resource in resources}
        self._groups = {resource.group for resource in self._known.values()}

    def extended(self, resources: Iterable[APIResource]) -> "ResourceCatalog":
        """Return a catalogue with these resources added."""
        return ResourceCatalog([*self._known.values(), *resources])

    def knows_group(self, group: str) -> bool:
        """Return whether the resources of a group are known."""
        return group in self._groups

    def find(self, group: str, name: str) -> APIResource | None:
        """Return the resource with exactly this name, or None."""
        return self._known.get((group, name))

    def has_subresource(self, name: str) -> bool:
        """Return whether any resource has a subresource of this name."""
        return any(known.partition("/")[2] == name for _, known in self._known)

    def suggest(self, group: str, name: str) -> APIResource | None:
        """Return the resource that a misspelled name most likely means, or None."""
        wanted = _expand_short_name(name)
        candidates = sorted(self._known.values(), key=lambda known: (known.group != group, known))
        for known in candidates:
            if wanted in _misspellings(known.name):
                return known
        names = [known.name for known in candidates]
        close = get_close_matches(wanted, names, n=1, cutoff=_MIN_SIMILARITY)
        return next((known for known in candidates if known.name in close), None)


def _expand_short_name(name: str) -> str:
    resource, slash, subresource = name.lower().partition("/")
    return f"{_SHORT_NAMES.get(resource, resource)}{slash}{subresource}"


def _misspellings(resource_name: str) -> set[str]:
    """Return common misspellings of a resource: the singular, or a subresource alone."""
    resource, slash, subresource = resource_name.partition("/")
    names = {resource, resource.removesuffix("s"), resource.removesuffix("es")}
    if resource.endswith("ies"):
        names.add(f"{resource[:-3]}y")
    spelled = {f"{name}{slash}{subresource}" for name in names}
    if subresource:
        spelled |= {f"{name}{mark}{subresource}" for name in names for mark in ".:-_"}
        spelled.add(f"{resource}/{subresource}s")
    if resource == "pods" and subresource:
        spelled.add(subresource)
    return spelled


def _built_in() -> Iterable[APIResource]:
    for is_namespaced, groups in ((True, _NAMESPACED), (False, _CLUSTER_SCOPED)):
        for group, names in groups.items():
            for name in names.split():
                yield APIResource(group, name, is_namespaced)


BUILT_IN = ResourceCatalog(_built_in())
"""The resources that kube-apiserver 1.37 serves itself."""
