"""The proxy runs as its Deployment says, with the rights of the base and nothing else."""

import re
from pathlib import Path

import pytest

from tests.support.empty_cluster import NAMESPACE, EmptyCluster
from tests.support.installed_proxy import InstalledProxy
from tests.support.streaming import wait_until

pytestmark = pytest.mark.timeout(180)


def test_it_runs_with_the_rights_of_the_base_and_misses_none(proxy: InstalledProxy) -> None:
    def log() -> str:
        return proxy.log_file.read_text()

    wait_until(lambda: log().count("proxy permissions verified") == 2, "rights are not told")

    for account in ("understudy-reviewer", "understudy-forwarder"):
        assert f'"user":"system:serviceaccount:{NAMESPACE}:{account}"' in log()
    assert '"level":"error"' not in log()
    assert "one identity" not in log()


def test_callers_without_impersonation_are_themselves(
    cluster: EmptyCluster, proxy: InstalledProxy, home: Path
) -> None:
    printed = cluster.follow("try", home, PROXY=proxy.url)

    assert re.search(r"Username +system:serviceaccount:default:visitor\n", printed)


def test_the_ca_can_be_had_from_the_cluster(cluster: EmptyCluster, home: Path) -> None:
    before = (home / "ca.crt").read_bytes()
    (home / "ca.crt").unlink()

    cluster.follow("ca", home)

    assert (home / "ca.crt").read_bytes() == before
