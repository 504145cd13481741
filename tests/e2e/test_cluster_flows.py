"""The flow that `docs/operations.md` gives our reviews."""

import re
from pathlib import Path

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

DOCUMENT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
NAMESPACE, ACCOUNT = "understudy", "understudy-reviewer"
FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/version"}},
}


def flow_of(reviewer: ApiClient, admin: ApiClient, method: str, target: str) -> str:
    """Return the name of the FlowSchema that a request is in."""
    body = REVIEW if method == "POST" else None
    uid = reviewer.request(method, target, body=body).header("X-Kubernetes-PF-FlowSchema-UID")
    known = admin.call("GET", FLOW_SCHEMAS)["items"]
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in known}
    name: str = names[uid]
    return name


def test_reviews_leave_the_flow_of_other_service_accounts_and_nothing_else_does(
    plain_api_server: ApiServer,
) -> None:
    admin = plain_api_server.admin
    found = re.search(r"<!-- manifest: flow -->\n```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found
    manifest = yaml.safe_load(found[1])
    create_namespace(admin, NAMESPACE)
    create_service_account(admin, NAMESPACE, ACCOUNT)
    token = token_for(admin, NAMESPACE, ACCOUNT)
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}
    name, reviewer = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}", plain_api_server.client(token)
    reviews = may("create", resources=["subjectaccessreviews"], group="authorization.k8s.io")
    Rights(plain_api_server).grant(Caller(name, token, subject), reviews)

    before = flow_of(reviewer, admin, "POST", REVIEWS)
    apply(admin, manifest)
    try:
        poll(
            lambda: flow_of(reviewer, admin, "POST", REVIEWS) == manifest["metadata"]["name"],
            "reviews are not in their own flow",
        )
        another = flow_of(reviewer, admin, "GET", "/api/v1/pods")
    finally:
        admin.call("DELETE", path_of(manifest))

    assert (before, another) == ("service-accounts", "service-accounts")
