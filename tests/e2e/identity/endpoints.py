"""The table of endpoints whose answer depends on who is asking."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.sandbox.aggregated.server import GROUP as CONSOLES
from proxy.sandbox.api_client import APIResponse, Manifest
from tests.e2e.identity.actors import BINDABLE, Actor
from tests.e2e.identity.place import TOKEN_REQUEST, config_map
from tests.support.impersonation import RBAC, Header

Who = Callable[[Actor], bool]

CONSOLE = f"/apis/{CONSOLES}/v1/namespaces/{{namespace}}/virtualmachines/vm/console"
APPLY = ("Content-Type", "application/apply-patch+yaml")
MERGE = ("Content-Type", "application/merge-patch+json")
# What no two answers share, or a write of somebody else's in between would change.
PASSING = {"uid", "creationTimestamp", "resourceVersion", "managedFields"}
PASSING_HEADERS = {"date", "audit-id", "content-length"}
PASSING_CLAIMS = {"exp", "iat", "nbf", "jti"}


def everybody(_actor: Actor) -> bool:
    return True


def nobody(_actor: Actor) -> bool:
    return False


def nodes(actor: Actor) -> bool:
    return actor.is_node


def the_red_team(actor: Actor) -> bool:
    return actor.is_of_the_red_team


def whole(answer: Any) -> Any:
    """Keep an object as it is, without what passes."""
    metadata = {key: value for key, value in answer["metadata"].items() if key not in PASSING}
    return {**answer, "metadata": metadata}


def rules(review: Any) -> Any:
    """Keep the rules of a SelfSubjectRulesReview, which come in no order."""
    status = review["status"]
    return {
        key: sorted(map(json.dumps, value)) if isinstance(value, list) else value
        for key, value in status.items()
    }


def claims(token_request: Any) -> Any:
    """Keep what a token says, without when it was said."""
    payload = token_request["status"]["token"].split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return {key: value for key, value in said.items() if key not in PASSING_CLAIMS}


def identity_received(answer: Any) -> Any:
    """Keep whom the aggregator named to the aggregated server."""
    return answer["remote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A request, whom it is answered well, and what of that answer must be the same."""

    method: str = "POST"
    target: str
    headers: Sequence[Header] = ()
    body: Manifest | None = None
    open_to: Who = everybody
    ok: int = 201
    refused: int = 403
    keep: Callable[[Any], Any] = whole
    allows: Who | None = None
    """Whom an access review answers yes."""

    def status_for(self, actor: Actor) -> int:
        """Return what the API server answers the actor."""
        return self.ok if self.open_to(actor) else self.refused

    def kept(self, response: APIResponse) -> Any:
        """Return what both doors must say alike: status, headers and body, without what passes."""
        headers = sorted(
            (name, value) for name, value in response.headers if name.lower() not in PASSING_HEADERS
        )
        # A refusal is the same to the last byte.
        body = self.keep(response.json()) if response.status == self.ok else response.body
        return response.status, headers, body


def _access(allows: Who, verb: str, resource: str, **attributes: Any) -> Endpoint:
    return Endpoint(
        target="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "resource": resource, **attributes}},
        },
        allows=allows,
    )


def _on_node(node: str) -> Manifest:
    requirement = {"key": "spec.nodeName", "operator": "In", "values": [node]}
    return {"requirements": [requirement]}


def _role(name: str, verb: str, resource: str) -> Manifest:
    rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
    metadata = {"name": name}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}


_IN_NAMESPACE = f"/apis/{RBAC}/v1/namespaces/{{namespace}}"


def _new_role(open_to: Who, verb: str, resource: str) -> Endpoint:
    return Endpoint(
        target=f"{_IN_NAMESPACE}/roles?dryRun=All",
        body=_role("granting", verb, resource),
        open_to=open_to,
    )


def _binding(open_to: Who, role: str) -> Endpoint:
    return Endpoint(
        target=f"{_IN_NAMESPACE}/rolebindings?dryRun=All",
        body={
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "binding"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "somebody"}],
        },
        open_to=open_to,
    )


def _node_change(open_to: Who, path: str, change: Manifest) -> Endpoint:
    return Endpoint(
        method="PATCH",
        target=f"/api/v1/nodes/{path}?dryRun=All",
        headers=[MERGE],
        body=change,
        open_to=open_to,
        ok=200,
    )


def _token_for(open_to: Who, pod: str) -> Endpoint:
    reference = {
        **TOKEN_REQUEST["spec"]["boundObjectRef"],
        "name": f"{{{pod}}}",
        "uid": f"{{{pod}_uid}}",
    }
    return Endpoint(
        target="/api/v1/namespaces/{namespace}/serviceaccounts/default/token",
        body={**TOKEN_REQUEST, "spec": {**TOKEN_REQUEST["spec"], "boundObjectRef": reference}},
        open_to=open_to,
        keep=claims,
    )


def _pods(open_to: Who, selector: str) -> Endpoint:
    return Endpoint(method="GET", target=f"/api/v1/pods?{selector}", open_to=open_to, ok=200)


def _admitted(open_to: Who, question: str) -> Endpoint:
    return Endpoint(
        target="/api/v1/namespaces/{namespace}/configmaps?dryRun=All",
        body=config_map(question),
        open_to=open_to,
        refused=422,
    )


_TAINTED = {"spec": {"taints": [{"key": "acme.io/maintenance", "effect": "NoSchedule"}]}}
_HEARTBEAT = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
_RESERVED_LABEL = {"metadata": {"labels": {"node-restriction.kubernetes.io/tier": "trusted"}}}

ENDPOINTS: Mapping[str, Endpoint] = {
    "who am I": Endpoint(
        target="/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    ),
    "may I create config maps here": _access(
        everybody, "create", "configmaps", namespace="{namespace}"
    ),
    "may I delete secrets": _access(nobody, "delete", "secrets", namespace="{namespace}"),
    "may I get the near node": _access(nodes, "get", "nodes", name="{near}"),
    "may I get the far node": _access(nobody, "get", "nodes", name="{far}"),
    "may I list all pods": _access(nobody, "list", "pods"),
    "may I list the near pods": _access(nodes, "list", "pods", fieldSelector=_on_node("{near}")),
    "may I list the far pods": _access(nobody, "list", "pods", fieldSelector=_on_node("{far}")),
    "which rules do I have": Endpoint(
        target="/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": "{namespace}"},
        },
        keep=rules,
    ),
    "certificate signing request": Endpoint(
        target="/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All",
        body={
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "identity"},
            "spec": {
                "request": "{certificate_request}",
                "signerName": "acme.io/nobody",
                "usages": ["client auth"],
            },
        },
    ),
    "role of rights one has": _new_role(everybody, "create", "configmaps"),
    "role of rights one lacks": _new_role(nobody, "delete", "secrets"),
    "role of rights one lacks, with leave to escalate": Endpoint(
        method="PATCH",
        target=f"{_IN_NAMESPACE}/roles/escalating?dryRun=All&fieldManager=identity",
        headers=[APPLY],
        body=_role("escalating", "delete", "secrets"),
    ),
    "binding of a role one may bind": _binding(everybody, BINDABLE),
    "binding of another role": _binding(nobody, "cluster-admin"),
    "status of the near node": _node_change(nodes, "{near}/status", _HEARTBEAT),
    "status of the far node": _node_change(nobody, "{far}/status", _HEARTBEAT),
    "spec of the far node": _node_change(nobody, "{far}", _TAINTED),
    "label of the near node that nodes may not set": _node_change(
        nobody, "{near}", _RESERVED_LABEL
    ),
    "token for a pod of the near node": _token_for(nodes, "near_pod"),
    "token for a pod of the far node": _token_for(nobody, "far_pod"),
    "pods of the near node": _pods(nodes, "fieldSelector=spec.nodeName%3D{near}"),
    "pods of the far node": _pods(nobody, "fieldSelector=spec.nodeName%3D{far}"),
    "pods of every node": _pods(nobody, ""),
    "admission policy that shows the user": _admitted(nobody, "tell-who-i-am"),
    "admission policy that reads extras": _admitted(the_red_team, "of-the-red-team"),
    "admission policy that asks about a node": _admitted(nodes, "may-get-the-node"),
    "admission policy that asks about this": _admitted(everybody, "may-create-this"),
    "admission policy that asks about more": _admitted(nobody, "may-delete-this"),
    "aggregated server": Endpoint(
        method="GET",
        target=CONSOLE,
        ok=200,
        keep=identity_received,
    ),
}
