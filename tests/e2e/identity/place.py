"""Where the actors act: a namespace, two nodes with a pod each, and what judges who is asking."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.identities import Credential
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_node,
    create_pod,
)
from tests.support.control_plane import fresh_name
from tests.support.impersonation import as_user, poll

TEAM = "acme.io/team"
RED = "red"
FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
FLOW_SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"


@dataclass(frozen=True, slots=True)
class Place:
    """Names that requests are filled in with: nodes that stand for themselves are `near`."""

    namespace: str
    near: str
    far: str
    near_pod: str
    near_pod_uid: str
    far_pod: str
    far_pod_uid: str
    auditors: str
    """A group with a FlowSchema of its own, which has the same name."""
    certificate_request: str

    def fill(self, value: Any) -> Any:
        """Return a target or a body with our names where it has braces."""
        match value:
            case str():
                names = {name: getattr(self, name) for name in self.__slots__}
                return value.format_map(names)
            case Mapping():
                return {key: self.fill(each) for key, each in value.items()}
            case list():
                return [self.fill(each) for each in value]
            case _:
                return value


def make_place(admin: ApiClient) -> Place:
    """Create everything, and return how it is called."""
    namespace, near, far = fresh_name("identity"), fresh_name("near"), fresh_name("far")
    auditors = fresh_name("auditors")
    create_namespace(admin, namespace)
    for node in (near, far):
        create_node(admin, node)
    near_pod, far_pod = (
        create_pod(admin, namespace, f"on-{node}", node=node)["metadata"] for node in (near, far)
    )
    for manifest in (_flow_schema(auditors), *_admission_policy(namespace, near)):
        apply(admin, manifest)
    return Place(
        namespace=namespace,
        near=near,
        far=far,
        near_pod=near_pod["name"],
        near_pod_uid=near_pod["uid"],
        far_pod=far_pod["name"],
        far_pod_uid=far_pod["uid"],
        auditors=auditors,
        certificate_request=_certificate_request(),
    )


def wait_for(place: Place, server: ApiServer, kubelet: Credential) -> None:
    """Wait until a server judges by all of it; `kubelet` proves to be the near node."""
    namespace, name = place.namespace, server.options.name
    flow_schema = server.admin.call("GET", f"{FLOW_SCHEMAS}/{place.auditors}")["metadata"]["uid"]
    anybody, near = as_user("anybody", groups=[place.auditors]), server.client(kubelet)
    token = place.fill(TOKEN_REQUEST)
    poll(
        lambda: (
            server.admin.request("GET", "/version", headers=anybody).header(FLOW_SCHEMA_HEADER)
            == flow_schema
        ),
        f"{name} does not use the FlowSchema",
    )
    poll(
        lambda: (
            server.admin.request(
                "POST",
                f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All",
                body=config_map("tell-who-i-am"),
            ).status
            == 422
        ),
        f"{name} does not use the ValidatingAdmissionPolicy",
    )
    poll(
        lambda: (
            near.request(
                "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", body=token
            ).status
            == 201
        ),
        f"{name} does not know which pod runs where",
    )


def config_map(name: str) -> Manifest:
    """Return a ConfigMap; its name is the question that the admission policy answers."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


TOKEN_REQUEST: Manifest = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {
        "expirationSeconds": 3600,
        "boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "{near_pod}",
            "uid": "{near_pod_uid}",
        },
    },
}


def _flow_schema(group: str) -> Manifest:
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": group},
        "spec": {
            "matchingPrecedence": 100,
            "priorityLevelConfiguration": {"name": "workload-high"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "Group", "group": {"name": group}}],
                    "resourceRules": [
                        {
                            "verbs": ["*"],
                            "apiGroups": ["*"],
                            "resources": ["*"],
                            "clusterScope": True,
                            "namespaces": ["*"],
                        }
                    ],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }
            ],
        },
    }


def _admission_policy(namespace: str, node: str) -> tuple[Manifest, Manifest]:
    """Return a policy that refuses ConfigMaps by who creates them, and its binding."""
    version, metadata = "admissionregistration.k8s.io/v1", {"name": namespace}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    policy = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [
                {
                    "name": "extra",
                    "expression": "has(request.userInfo.extra) ? request.userInfo.extra : {}",
                },
                {"name": "question", "expression": "object.metadata.name"},
            ],
            "validations": [
                {
                    "expression": "variables.question != 'tell-who-i-am'",
                    "messageExpression": (
                        "'%s, %s, %s, %s'.format([request.userInfo.username,"
                        " has(request.userInfo.uid) ? request.userInfo.uid : '-',"
                        " request.userInfo.groups, variables.extra])"
                    ),
                },
                {
                    "expression": (
                        "variables.question != 'of-the-red-team' ||"
                        f" ('{TEAM}' in variables.extra && '{RED}' in variables.extra['{TEAM}'])"
                    ),
                },
                {
                    "expression": (
                        "variables.question != 'may-get-the-node' || authorizer.group('')"
                        f".resource('nodes').name('{node}').check('get').allowed()"
                    ),
                },
                {
                    "expression": (
                        "variables.question != 'may-create-this' ||"
                        " authorizer.requestResource.check('create').allowed()"
                    ),
                },
                {
                    "expression": (
                        "variables.question != 'may-delete-this' ||"
                        " authorizer.requestResource.check('delete').allowed()"
                    ),
                },
            ],
        },
    }
    labels = {"kubernetes.io/metadata.name": namespace}
    binding = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": labels}},
        },
    }
    return policy, binding


def _certificate_request() -> str:
    """Return what a CertificateSigningRequest holds; whose it is, the API server says."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "whoever")])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
