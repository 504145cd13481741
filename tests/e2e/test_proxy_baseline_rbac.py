"""What our identities can do alone, in every corner of the real API server: next to nothing.

A forwarder that loses the one header which says whom it speaks for is denied everything but what
every authenticated user may do. That is listed here, one by one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_service_account, token_for
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.timeout(120)  # hundreds of requests on a machine that may be busy

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "understudy"
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
OF_THE_COLLECTION = {"list", "watch", "create", "deletecollection"}

# Discovery and health, by the ClusterRoles system:discovery, system:public-info-viewer, and for
# service accounts system:service-account-issuer-discovery.
PUBLIC_PATHS = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
ISSUER_PATHS = ("/.well-known/openid-configuration", "/openid/v1/jwks")
BASELINE = {
    # Questions about oneself, by system:basic-user.
    ("create", "selfsubjectaccessreviews"),
    ("create", "selfsubjectrulesreviews"),
    ("create", "selfsubjectreviews"),
    # Certificates to trust, which are public, by system:cluster-trust-bundle-discovery: every
    # service account's.
    ("get", "clustertrustbundles"),
    ("list", "clustertrustbundles"),
    ("watch", "clustertrustbundles"),
}
REVIEWS = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}


@pytest.fixture(scope="module")
def base(control_plane: ControlPlane, plain_api_server: ApiServer) -> None:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="baseline")
    kubectl = Kubectl(control_plane.binaries.kubectl, kubeconfig)
    done = kubectl.run("apply", "-k", str(MANIFESTS / "base"))
    assert done.returncode == 0, done.stderr


def client_of(account: str, api_server: ApiServer) -> ApiClient:
    return api_server.client(token_for(api_server.admin, NAMESPACE, account))


def resources(admin: ApiClient) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the root and the description of every resource and subresource of the cluster."""
    groups = admin.call("GET", "/apis")["groups"]
    versions = [one["groupVersion"] for group in groups for one in group["versions"]]
    for root in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for resource in admin.call("GET", root)["resources"]:
            yield root, resource


def targets(admin: ApiClient) -> Iterator[tuple[str, str, str]]:
    """Yield verb, resource and path of everything that can be asked for."""
    for root, resource in resources(admin):
        name, _, subresource = resource["name"].partition("/")
        scopes = [f"/namespaces/{NAMESPACE}"] if resource["namespaced"] else [""]
        for verb in resource["verbs"]:
            for scope in [*scopes, ""] if verb in ("list", "watch") else scopes:
                path = f"{root}{scope}/{name}"
                if verb not in OF_THE_COLLECTION or subresource:
                    path += f"/x/{subresource}".rstrip("/")
                yield (
                    verb,
                    resource["name"],
                    f"{path}?watch=1&timeoutSeconds=1" if verb == "watch" else path,
                )


def allowed_to(client: ApiClient, admin: ApiClient) -> set[tuple[str, str]]:
    """Try everything, and return what was not denied."""
    allowed = set()
    asked = 0
    with client.connect() as connection:
        for verb, resource, path in targets(admin):
            response = connection.request(
                METHODS[verb], path, body={} if verb == "create" else None
            )
            asked += 1
            assert response.status != 401
            if response.status != 403:
                allowed.add((verb, resource))
    assert asked > 500
    return allowed


def allowed_paths(client: ApiClient, admin: ApiClient) -> set[str]:
    """Try every path that is no resource, and return what was not denied."""
    paths = [*admin.call("GET", "/")["paths"], "/metrics", "/logs/", "/debug/pprof/", "/nowhere"]
    with client.connect() as connection:
        return {path for path in paths if connection.request("GET", path).status != 403}


def test_the_forwarder_alone_is_denied_everything_but_what_everybody_may(
    base: None, plain_api_server: ApiServer
) -> None:
    admin = plain_api_server.admin
    forwarder = client_of("understudy-forwarder", plain_api_server)

    allowed, paths = allowed_to(forwarder, admin), allowed_paths(forwarder, admin)

    assert allowed == BASELINE
    assert {path for path in paths if not path.startswith(PUBLIC_PATHS)} == set(ISSUER_PATHS)
    # Nothing of that is ours: an account that nobody granted anything has the same.
    create_service_account(admin, NAMESPACE, "anybody")
    anybody = client_of("anybody", plain_api_server)
    assert allowed_to(anybody, admin) == allowed
    assert allowed_paths(anybody, admin) == paths


def test_the_reviewer_may_ask_reviews_beyond_that(base: None, plain_api_server: ApiServer) -> None:
    reviewer = client_of("understudy-reviewer", plain_api_server)

    allowed = allowed_to(reviewer, plain_api_server.admin)

    assert allowed == BASELINE | REVIEWS
