"""What the manifests grant is what the proxy is tested with, and not one rule more."""

from pathlib import Path

import yaml

from proxy.sandbox.proxy_process import OWN_RULES

RBAC = Path(__file__).parents[2] / "manifests" / "rbac.yaml"


def test_the_role_is_the_one_that_every_test_against_a_real_server_runs_with() -> None:
    roles = [one for one in yaml.safe_load_all(RBAC.read_text()) if one["kind"] == "ClusterRole"]

    assert [role["rules"] for role in roles] == [list(OWN_RULES)]
