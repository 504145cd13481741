import pytest

from proxy.core.userinfo import (
    UserInfo,
    make_extra,
    node_name,
    service_account,
    service_account_groups,
    with_authenticated,
    with_implied_groups,
)


@pytest.mark.parametrize(
    ("username", "node"),
    [
        ("system:node:node1", "node1"),
        ("system:node:a.b-c.d", "a.b-c.d"),
        ("system:node:" + "a" * 253, "a" * 253),
        ("system:node:" + "a" * 254, None),
        ("system:node:", None),
        ("system:node:Node_1", None),
        ("system:node:node1\n", None),
        ("system:node:-a", None),
        ("system:node:a..b", None),
        ("system:nodes:node1", None),
        ("node1", None),
    ],
)
def test_only_a_valid_node_username_stands_for_a_node(username: str, node: str | None) -> None:
    assert node_name(username) == node


@pytest.mark.parametrize(
    ("username", "account"),
    [
        ("system:serviceaccount:ns:sa", ("ns", "sa")),
        ("system:serviceaccount:ns:a.b", ("ns", "a.b")),
        ("system:serviceaccount:" + "n" * 63 + ":sa", ("n" * 63, "sa")),
        ("system:serviceaccount:" + "n" * 64 + ":sa", None),
        ("system:serviceaccount:n.s:sa", None),
        ("system:serviceaccount:ns:" + "a" * 254, None),
        ("system:serviceaccount:ns:B", None),
        ("system:serviceaccount:ns", None),
        ("system:serviceaccount:ns:", None),
        ("system:serviceaccount::sa", None),
        ("system:serviceaccount:ns:sa:x", None),
        ("system:serviceaccount:ns:sa\n", None),
        ("ns:sa", None),
    ],
)
def test_only_a_valid_username_stands_for_a_service_account(
    username: str, account: tuple[str, str] | None
) -> None:
    assert service_account(username) == account


def test_extras_are_equal_whatever_order_they_came_in() -> None:
    one = UserInfo("u", extra=make_extra({"b": ["2", "1"], "a": []}))
    other = UserInfo("u", extra=make_extra({"a": (), "b": ("2", "1")}))

    assert one == other
    assert hash(one) == hash(other)
    assert one.extra == (("a", ()), ("b", ("2", "1")))


def test_a_service_account_is_in_the_groups_of_its_namespace() -> None:
    assert service_account_groups("ns") == ("system:serviceaccounts", "system:serviceaccounts:ns")


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["a"], ("a", "system:authenticated")),
        (["a", "system:authenticated", "b"], ("a", "system:authenticated", "b")),
        (["system:unauthenticated"], ("system:unauthenticated",)),
    ],
)
def test_logging_in_adds_the_authenticated_group_once(
    groups: list[str], expected: tuple[str, ...]
) -> None:
    assert with_authenticated(groups) == expected
    assert with_implied_groups("alice", groups) == expected


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], ("system:unauthenticated",)),
        (["system:authenticated"], ("system:authenticated", "system:unauthenticated")),
        (["system:unauthenticated", "a"], ("system:unauthenticated", "a")),
    ],
)
def test_anonymous_is_never_made_authenticated(
    groups: list[str], expected: tuple[str, ...]
) -> None:
    assert with_implied_groups("system:anonymous", groups) == expected
