"""`understudy who-can`: what must be said before a cluster is asked."""

import pytest

from proxy.analysis.access import ConfirmedHolder
from proxy.cli.who_can import print_table, record
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.who_can import ANY_NODE, Holder
from proxy.core.userinfo import UserInfo
from tests.explain_parity.command import run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(("list", "pods"), "use exactly one of --as", id="nobody"),
        pytest.param(("--as", "a", "--as-masters"), "use exactly one of --as", id="two"),
        pytest.param(("--as", "a"), "specify VERB RESOURCE", id="nothing"),
        pytest.param(("--as-masters", "list", "pods"), "covers every action", id="masters"),
    ],
)
def test_wrong_options_are_told(arguments: tuple[str, ...], problem: str) -> None:
    said = run("who-can", *arguments)

    assert said.code == 2
    assert problem in said.errors


def confirmed(mode: ImpersonationMode, wanted_user: str) -> ConfirmedHolder:
    holder = Holder(mode, "system:serviceaccount:a:agent", ())
    return ConfirmedHolder(holder, UserInfo(wanted_user), is_confirmed=True)


ANY = f"system:node:{ANY_NODE}"


@pytest.mark.parametrize(
    ("mode", "wanted_user", "row"),
    [
        (
            ImpersonationMode.ASSOCIATED_NODE,
            ANY,
            "system:serviceaccount:a:agent  its own node  associated-node",
        ),
        (
            ImpersonationMode.ASSOCIATED_NODE,
            "system:node:n1",
            "system:serviceaccount:a:agent, from a pod on that node  system:node:n1",
        ),
        (
            ImpersonationMode.ARBITRARY_NODE,
            ANY,
            "system:serviceaccount:a:agent  any node  arbitrary-node",
        ),
        (
            ImpersonationMode.ARBITRARY_NODE,
            "system:node:n1",
            "system:serviceaccount:a:agent  system:node:n1  arbitrary-node",
        ),
    ],
)
def test_associated_node_is_limited_to_its_own_node_in_the_table(
    mode: ImpersonationMode, wanted_user: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table([confirmed(mode, wanted_user)])

    assert capsys.readouterr().out.splitlines()[1].startswith(row)


def test_record_has_the_condition() -> None:
    on_node = record(confirmed(ImpersonationMode.ASSOCIATED_NODE, "system:node:n1"))
    own = record(confirmed(ImpersonationMode.ASSOCIATED_NODE, ANY))
    arbitrary = record(confirmed(ImpersonationMode.ARBITRARY_NODE, ANY))

    assert [one["condition"] for one in (on_node, own, arbitrary)] == [
        "from a pod on that node",
        None,
        None,
    ]
    assert [one["as"] for one in (own, arbitrary)] == ["its own node", "any node"]
