"""The manifests, put into a real cluster as they are."""

from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import token_for
from tests.support.control_plane import who_am_i
from tests.support.kubectl import Kubectl

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture
def kubectl(control_plane: ControlPlane, plain_api_server: ApiServer) -> Kubectl:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="manifests")
    return Kubectl(control_plane.binaries.kubectl, kubeconfig)


def test_the_account_they_make_may_become_somebody_and_do_nothing_itself(
    kubectl: Kubectl, plain_api_server: ApiServer
) -> None:
    done = kubectl.run("apply", "-f", str(MANIFESTS / "rbac.yaml"))
    assert done.returncode == 0, done.stderr
    token = token_for(plain_api_server.admin, "understudy", "understudy")
    client = plain_api_server.client(token)

    as_bob = who_am_i(client, ("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "blue"))
    as_itself = client.request("GET", "/api/v1/namespaces/understudy/secrets")

    assert (as_bob["username"], as_bob["extra"]) == ("bob", {"team": ["blue"]})
    assert as_itself.status == 403
