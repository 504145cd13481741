from pathlib import Path

from proxy.analysis.existing_grants import ExistingGrant
from proxy.cli.grants import row
from tests.explain_parity.command import run


def test_kubeconfig_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    said = run("grants", f"--kubeconfig={tmp_path / 'none.yaml'}")

    assert (said.code, said.output) == (1, "")
    assert said.errors.count("\n") == 1


def test_row_has_the_kind_the_place_and_a_dash_for_what_is_unknown() -> None:
    assert row(ExistingGrant("desk", "web", ("bob", "carol"))) == (
        *("desk", "RBAC", "web", "bob, carol"),
        *("-", "-", "-"),
    )
    assert row(ExistingGrant("desk", "", ()))[2:4] == ("(cluster)", "-")
