"""Who may act as somebody, in cases that a reader can check by hand."""

import pytest

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import (
    Binding,
    RBACSnapshot,
    Rule,
    Subject,
)
from proxy.core.rbac.who_can import (
    Holder,
    ImpersonationHolder,
    identity_holders,
    masters_impersonators,
    node_holders,
    user_of_caller,
)
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import UserInfo

LIST = parse_request_info(b"GET", b"/api/v1/namespaces/shop/pods")
AUTHENTICATION = ("authentication.k8s.io",)
ALICE = UserInfo("alice")
MASTERS = ("system:masters",)
JANE, DEV = Subject("User", "jane"), Subject("Group", "dev")


def bound(role: str, subject: Subject, *rules: Rule, namespace: str = "") -> Binding:
    return Binding(role, namespace, f"ClusterRole/{role}", (subject,), rules)


def may_be(mode: str, resource: str, *names: str) -> Rule:
    return Rule((f"impersonate:{mode}",), AUTHENTICATION, (resource,), names)


def may_list(mode: str) -> Rule:
    return Rule((f"impersonate-on:{mode}:list",), ("",), ("pods",))


def legacy(resource: str, *names: str) -> Rule:
    return Rule(("impersonate",), ("",), (resource,), names)


def told(found: list[ImpersonationHolder]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return mode, name and groups, without those whom no rule binds."""
    return [
        (holder.mode.value, holder.name, holder.groups)
        for _, holder in found
        if holder.groups != MASTERS
    ]


def test_both_halves_are_needed_whoever_brings_them() -> None:
    rbac = RBACSnapshot(
        (
            bound("be", JANE, may_be("user-info", "users", "alice")),
            bound("do", DEV, may_list("user-info"), namespace="shop"),
            bound("do-elsewhere", JANE, may_list("user-info"), namespace="bank"),
        )
    )

    found = identity_holders(rbac, ALICE, LIST)

    assert told(found) == [("user-info", "jane", ("dev",))]
    jane = found[1][1]
    assert jane.roles == ("shop/ClusterRole/do", "ClusterRole/be")
    assert user_of_caller(jane, ALICE) == UserInfo("jane", groups=("dev", "system:authenticated"))


def test_members_of_the_privileged_group_need_no_role() -> None:
    assert identity_holders(RBACSnapshot(), ALICE, LIST) == [
        (ALICE, Holder(ImpersonationMode.USER_INFO, "", MASTERS)),
        (ALICE, Holder(ImpersonationMode.LEGACY, "", MASTERS)),
    ]


def test_whoever_is_logged_in_and_who_is_not_are_told_apart() -> None:
    rules = may_be("user-info", "users"), may_list("user-info")
    everyone = RBACSnapshot((bound("r", Subject("Group", "system:authenticated"), *rules),))
    nobody = RBACSnapshot((bound("r", Subject("Group", "system:unauthenticated"), *rules),))

    assert told(identity_holders(everyone, ALICE, LIST)) == [("user-info", "", ())]
    assert told(identity_holders(nobody, ALICE, LIST)) == [("user-info", "system:anonymous", ())]


def test_a_star_or_each_item_opens_many_groups() -> None:
    wanted_user = UserInfo("alice", groups=("a", "b", "c", "d"))
    base = may_be("user-info", "users"), may_list("user-info")
    ann, bob, cid = (Subject("User", name) for name in ("ann", "bob", "cid"))
    rbac = RBACSnapshot(
        (
            bound("star", ann, *base, may_be("user-info", "groups", "*")),
            bound("each", bob, *base, may_be("user-info", "groups", "a", "b", "c", "d")),
            bound("some", cid, *base, may_be("user-info", "groups", "a", "b", "c")),
        )
    )

    assert told(identity_holders(rbac, wanted_user, LIST)) == [
        ("user-info", "ann", ()),
        ("user-info", "bob", ()),
    ]


def test_no_constrained_right_opens_the_privileged_group() -> None:
    wanted_user = UserInfo("alice", groups=MASTERS)
    everything = Rule(("impersonate:user-info", "impersonate-on:user-info:list"), ("*",), ("*",))

    assert (
        told(identity_holders(RBACSnapshot((bound("r", JANE, everything),)), wanted_user, LIST))
        == []
    )


def test_only_service_accounts_have_a_node_of_their_own() -> None:
    rules = may_be("associated-node", "nodes"), may_list("associated-node")
    accounts = Subject("Group", "system:serviceaccounts:tools")
    rbac = RBACSnapshot(
        (
            bound("a", Subject("ServiceAccount", "agent", "kube"), *rules),
            bound("b", accounts, rules[0]),
            bound("all", Subject("Group", "system:serviceaccounts"), rules[1]),
            bound("c", JANE, *rules),
            bound("d", DEV, *rules),
        )
    )

    found = identity_holders(rbac, UserInfo("system:node:n1"), LIST)

    assert told(found) == [
        ("associated-node", "", ("system:serviceaccounts:tools",)),
        ("associated-node", "system:serviceaccount:kube:agent", ()),
    ]
    assert found[0][1].roles == ("ClusterRole/all", "ClusterRole/b")
    caller = user_of_caller(found[0][1], UserInfo("system:node:n1"))
    assert caller.name.startswith("system:serviceaccount:")
    assert "system:serviceaccounts" in caller.groups


def test_groups_that_come_together_are_named_once() -> None:
    own, every = "system:serviceaccounts:tools", "system:serviceaccounts"
    rbac = RBACSnapshot(
        (
            bound("be", Subject("Group", own), may_be("user-info", "users")),
            bound("do", Subject("Group", every), may_list("user-info")),
        )
    )

    found = identity_holders(rbac, ALICE, LIST)

    assert told(found) == [("user-info", "", (own,))]
    holder = next(one for _, one in found if one.groups == (own,))
    assert {own, every} <= set(user_of_caller(holder, ALICE).groups)
    assert holder.roles == ("ClusterRole/do", "ClusterRole/be")


def test_any_node_is_more_than_one() -> None:
    one, every, old = (Subject("User", name) for name in ("one", "every", "old"))
    halfway = Subject("User", "halfway")
    rbac = RBACSnapshot(
        (
            bound("a", one, may_be("arbitrary-node", "nodes", "n1"), may_list("arbitrary-node")),
            bound("b", every, may_be("arbitrary-node", "nodes"), may_list("arbitrary-node")),
            bound("c", old, legacy("users"), legacy("groups", "system:nodes")),
            bound("d", halfway, legacy("users")),
        )
    )

    assert told(node_holders(rbac, LIST)) == [
        ("arbitrary-node", "every", ()),
        ("legacy", "old", ()),
    ]


@pytest.mark.parametrize(
    ("rule", "namespace", "expected"),
    [
        pytest.param(legacy("users"), "", "understudy:nobody", id="anybody"),
        pytest.param(legacy("users", "root"), "", "root", id="one user"),
        pytest.param(
            legacy("serviceaccounts", "bot"),
            "shop",
            "system:serviceaccount:shop:bot",
            id="an account",
        ),
        pytest.param(Rule(("get",), ("",), ("users",), ("root",)), "", None, id="another verb"),
        pytest.param(legacy("pods", "root"), "", None, id="another resource"),
    ],
)
def test_the_privileged_group_is_reached_by_legacy_with_some_user(
    rule: Rule, namespace: str, expected: str | None
) -> None:
    masters = bound("m", JANE, legacy("groups", "system:masters"))

    found = masters_impersonators(
        RBACSnapshot((masters, bound("u", JANE, rule, namespace=namespace)))
    )

    assert [wanted_user for wanted_user, _ in found] == (
        [UserInfo(expected, groups=MASTERS)] if expected else []
    )
    assert all(holder.name == "jane" for _, holder in found)


def test_subjects_of_unknown_kind_or_place_are_nobody() -> None:
    rules = may_be("user-info", "users"), may_list("user-info")
    rbac = RBACSnapshot(
        (
            bound("a", Subject("user", "jane"), *rules),
            bound("b", Subject("ServiceAccount", "lost"), *rules),
        )
    )

    assert told(identity_holders(rbac, ALICE, LIST)) == []
