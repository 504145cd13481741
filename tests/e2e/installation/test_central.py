"""The overlay `central`, run as it says: people with the cluster's certificates, beside tokens."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.sandbox.objects import create_namespace, token_for
from proxy.sandbox.processes import LOOPBACK
from proxy.sandbox.programs.binaries import Binaries
from tests.support.control_plane import who_am_i
from tests.support.empty_cluster import MANIFESTS, NAMESPACE, empty_cluster
from tests.support.installed_proxy import InstalledProxy

pytestmark = pytest.mark.timeout(180)


def test_it_knows_certificates_and_tokens_and_ends_in_time(
    binaries: Binaries, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.crt"
    words = ["certificate", "--service=understudy", LOOPBACK, f"--ca-out={ca_file}"]
    with empty_cluster(binaries) as cluster:
        cluster.install("--kustomize", str(MANIFESTS / "overlays" / "central"))
        printed = subprocess.run(
            [sys.executable, "-m", "proxy", *words], capture_output=True, check=True, timeout=60
        )
        cluster.run("apply", "--filename=-", stdin=printed.stdout)
        cluster.publish_root_ca(NAMESPACE)
        create_namespace(cluster.admin, "default")
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/understudy"
        deployment = cluster.admin.call("GET", path)
        alice = cluster.control_plane.clients.issue_client("alice", groups=("dev",))
        robot = token_for(cluster.admin, "default", "default")

        ca_pem = ca_file.read_bytes()
        with InstalledProxy(cluster, deployment, tmp_path, ca_pem=ca_pem) as proxy:
            by_certificate = who_am_i(proxy.client(alice))
            by_token = who_am_i(proxy.client(robot))
            stranger = cluster.control_plane.servers.issue_client("alice")
            refused = proxy.client(stranger).request("GET", "/version")
            proxy.process.send_signal(signal.SIGTERM)
            grace_seconds = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
            exit_code = proxy.process.wait(grace_seconds)

    assert by_certificate["username"] == "alice"
    assert by_certificate["groups"] == ["dev", "system:authenticated"]
    assert by_token["username"] == "system:serviceaccount:default:default"
    assert refused.status == 401
    # It ends by itself before a kubelet would kill it.
    assert exit_code == 0
