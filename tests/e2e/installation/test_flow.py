"""What we ask in our own name has a flow of its own at the API server, and nothing else has."""

import pytest

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.objects import token_for
from tests.support.empty_cluster import NAMESPACE, EmptyCluster
from tests.support.impersonation import REVIEWS, poll
from tests.support.installed_proxy import InstalledProxy

pytestmark = pytest.mark.timeout(180)

OURS = "understudy"
FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHO_AM_I = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/version"}},
}
TOKENS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/understudy-forwarder/token"
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def flow_of(
    client: ApiClient,
    admin: ApiClient,
    target: str,
    body: Manifest | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> str:
    """Return the name of the FlowSchema that a request is in."""
    method = "GET" if body is None else "POST"
    response = client.request(method, target, body=body, headers=headers)
    uid = response.header("X-Kubernetes-PF-FlowSchema-UID")
    known = admin.call("GET", FLOW_SCHEMAS)["items"]
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in known}
    name: str = names[uid]
    return name


def test_our_own_questions_leave_the_flow_of_other_accounts_and_nothing_else_does(
    cluster: EmptyCluster, proxy: InstalledProxy
) -> None:
    admin = cluster.admin
    reviewer, forwarder = (
        cluster.server.client(token_for(admin, NAMESPACE, f"understudy-{name}"))
        for name in ("reviewer", "forwarder")
    )
    stranger = cluster.server.client(token_for(admin, "default", "default"))
    as_alice = (("Impersonate-User", "alice"),)

    poll(
        lambda: flow_of(reviewer, admin, REVIEWS, REVIEW) == OURS,
        "reviews are not in their own flow",
    )
    own = {
        flow_of(reviewer, admin, TOKENS, TOKEN),
        *(flow_of(each, admin, SELF, WHO_AM_I) for each in (reviewer, forwarder)),
    }
    others = {
        flow_of(reviewer, admin, "/api/v1/pods"),
        flow_of(stranger, admin, SELF, WHO_AM_I),
    }
    for_alice = flow_of(forwarder, admin, SELF, WHO_AM_I, as_alice)

    assert (own, others) == ({OURS}, {"service-accounts"})
    assert for_alice == "global-default"
