"""Changes, renewal, upgrade and removal by the book, in a cluster of their own."""

from pathlib import Path

import pytest
import yaml

from proxy.sandbox.programs.binaries import Binaries
from tests.support.empty_cluster import NAMESPACE, empty_cluster

pytestmark = pytest.mark.timeout(180)


KINDS = "clusterroles,clusterrolebindings,flowschemas,prioritylevelconfigurations"
OURS = ("get", KINDS, "--selector=app.kubernetes.io/name=understudy", "--output=name")


def test_what_was_installed_is_changed_and_removed_by_the_book(
    binaries: Binaries, tmp_path: Path
) -> None:
    with empty_cluster(binaries) as cluster:
        for step in ("install", "node-agent"):
            cluster.follow(step, tmp_path)
        first_ca = (tmp_path / "ca.crt").read_bytes()
        owned = cluster.run(*OURS).split()

        checked = cluster.follow("configure", tmp_path)
        cluster.follow("renew", tmp_path)
        trusted = cluster.run("--namespace=agents", "get", "configmap/understudy-ca", "-o=yaml")
        upgraded = cluster.follow("upgrade", tmp_path)
        cluster.follow("remove", tmp_path)
        left = cluster.run(*OURS)
        namespace = cluster.admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}")

    assert "config.yaml" in checked
    assert (tmp_path / "ca.crt").read_bytes() != first_ca
    assert yaml.safe_load(trusted)["data"]["ca.crt"].count("BEGIN CERTIFICATE") == 2
    assert "configmap/understudy serverside-applied" in upgraded
    assert (len(owned), left) == (6, "")
    # Its end is a controller's work, and there is none here.
    assert namespace["status"]["phase"] == "Terminating"
