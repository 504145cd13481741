"""The flow that the base gives to what we ask in our own name."""

from pathlib import Path
from typing import Any

import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_service_account,
    path_of,
    token_for,
)
from tests.support.impersonation import REVIEWS, Caller, Rights, may, poll

FLOW_CONTROL = Path(__file__).parents[2] / "manifests" / "base" / "flow-control.yaml"
NAMESPACE, REVIEWER, FORWARDER = "understudy", "understudy-reviewer", "understudy-forwarder"
FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/version"}},
}


WHO_AM_I = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def flow_of(
    client: ApiClient, admin: ApiClient, target: str, body: Any = None, *headers: tuple[str, str]
) -> str:
    """Return the name of the FlowSchema that a request is in."""
    method = "GET" if body is None else "POST"
    answer = client.request(method, target, body=body, headers=headers)
    uid = answer.header("X-Kubernetes-PF-FlowSchema-UID")
    known = admin.call("GET", FLOW_SCHEMAS)["items"]
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in known}
    name: str = names[uid]
    return name


def account(server: ApiServer, name: str) -> Caller:
    create_namespace(server.admin, NAMESPACE)
    create_service_account(server.admin, NAMESPACE, name)
    token = token_for(server.admin, NAMESPACE, name)
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}
    return Caller(f"system:serviceaccount:{NAMESPACE}:{name}", token, subject)


def test_our_own_questions_leave_the_flow_of_other_service_accounts_and_nothing_else_does(
    plain_api_server: ApiServer,
) -> None:
    admin, rights = plain_api_server.admin, Rights(plain_api_server)
    accounts = account(plain_api_server, REVIEWER), account(plain_api_server, FORWARDER)
    reviewer, forwarder = (plain_api_server.client(one.credential) for one in accounts)
    rights.grant(
        accounts[0],
        may("create", resources=["subjectaccessreviews"], group="authorization.k8s.io"),
    )
    rights.grant(accounts[1], may("impersonate", resources=["users"]))
    manifests = list(yaml.safe_load_all(FLOW_CONTROL.read_text()))
    ours = manifests[-1]["metadata"]["name"]

    before = flow_of(reviewer, admin, REVIEWS, REVIEW)
    for manifest in manifests:
        apply(admin, manifest)
    try:
        poll(
            lambda: flow_of(reviewer, admin, REVIEWS, REVIEW) == ours,
            "reviews are not in their own flow",
        )
        own = {flow_of(each, admin, SELF, WHO_AM_I) for each in (reviewer, forwarder)}
        other_deed = flow_of(reviewer, admin, "/api/v1/pods")
        for_alice = flow_of(forwarder, admin, SELF, WHO_AM_I, ("Impersonate-User", "alice"))
    finally:
        for manifest in reversed(manifests):
            admin.call("DELETE", path_of(manifest))

    assert (before, own, other_deed) == ("service-accounts", {ours}, "service-accounts")
    assert for_alice == "global-default"
