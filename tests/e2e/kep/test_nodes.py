"""Nodes: the one a caller runs on, and any other."""

import pytest

from tests.e2e.kep.cast import Cast
from tests.support.impersonation import (
    Caller,
    Doors,
    Rights,
    as_node,
    as_user,
    is_refused_impersonation,
    may,
    may_ask_who,
    may_be,
    may_do,
    may_impersonate,
    message_of,
)

ASSOCIATED = (may_be("associated-node", "nodes"), may_do("associated-node", "list"))
ARBITRARY = "arbitrary-node"


def pods_of(node: str) -> str:
    return f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"


@pytest.fixture
def node1(cast: Cast) -> str:
    return cast.node()


@pytest.fixture
def agent(cast: Cast, rights: Rights, node1: str) -> Caller:
    """Runs on node1, as its token says, and holds the test plan's permissions."""
    caller = cast.service_account(node=node1)
    rights.grant(caller, *ASSOCIATED)
    return caller


def test_an_agent_can_impersonate_the_node_it_runs_on_to_list_pods(
    agent: Caller, node1: str, doors: Doors
) -> None:
    assert doors.ask(agent, "GET", pods_of(node1), as_node(node1)).status == 200


def test_an_agent_cannot_impersonate_another_node(agent: Caller, cast: Cast, doors: Doors) -> None:
    node2 = cast.node()

    response = doors.ask(agent, "GET", pods_of(node2), as_node(node2))

    assert response.status == 403
    assert "cannot impersonate-on:arbitrary-node:list" in message_of(response)


def test_an_agent_cannot_impersonate_a_user(
    agent: Caller, node1: str, cast: Cast, rights: Rights, doors: Doors
) -> None:
    bob = cast.user("bob")
    rights.grant(bob, may("list"))

    response = doors.ask(agent, "GET", pods_of(node1), as_user(bob.name))

    assert response.status == 403
    assert "cannot impersonate-on:user-info:list" in message_of(response)


def test_an_agent_cannot_impersonate_its_node_to_update_pods(
    agent: Caller, node1: str, doors: Doors
) -> None:
    path = "/api/v1/namespaces/default/pods/x"

    response = doors.ask(agent, "PUT", path, as_node(node1), body={})

    assert response.status == 403
    assert 'cannot impersonate-on:associated-node:update resource "pods"' in message_of(response)


def test_one_permission_serves_each_pod_of_an_agent_on_its_own_node(
    agent: Caller, node1: str, cast: Cast, doors: Doors
) -> None:
    """An answer remembered for one node serves the agent's other pods, yet each is its own node."""
    namespace, name = agent.subject["namespace"], agent.subject["name"]
    node2 = cast.node()
    neighbour = cast.account_on(namespace, name, node=node2)

    first = doors.ask(agent, "GET", "/api/v1/pods", as_node(node1))
    second = doors.ask(neighbour, "GET", "/api/v1/pods", as_node(node2))
    crossed = doors.ask(neighbour, "GET", "/api/v1/pods", as_node(node1))

    # A node may not list all pods: that refusal names the node that the request ran as.
    assert f'User "system:node:{node1}"' in message_of(first)
    assert f'User "system:node:{node2}"' in message_of(second)
    assert is_refused_impersonation(crossed)


def test_a_service_account_that_runs_on_no_node_has_no_associated_node(
    agent: Caller, node1: str, cast: Cast, doors: Doors
) -> None:
    unbound = cast.account_on(agent.subject["namespace"], agent.subject["name"], node=None)

    response = doors.ask(unbound, "GET", pods_of(node1), as_node(node1))

    assert response.status == 403
    assert "cannot impersonate-on:arbitrary-node:list" in message_of(response)


@pytest.mark.parametrize("missing", ["action", "identity"])
def test_when_the_associated_node_is_refused_arbitrary_nodes_are_tried(
    missing: str, node1: str, cast: Cast, rights: Rights, doors: Doors
) -> None:
    agent = cast.service_account(node=node1)
    partial = {"action": ASSOCIATED[0], "identity": ASSOCIATED[1]}
    rights.grant(agent, partial[missing])
    before = doors.ask(agent, "GET", pods_of(node1), as_node(node1))

    rights.grant(agent, may_be(ARBITRARY, "nodes", node1), may_do(ARBITRARY, "list"))
    after = doors.ask(agent, "GET", pods_of(node1), as_node(node1))

    assert before.status == 403
    assert "associated-node" in message_of(before)
    assert after.status == 200


def test_an_arbitrary_node_is_named_in_the_permission(
    cast: Cast, node1: str, rights: Rights, doors: Doors
) -> None:
    caller, node2 = cast.user("impersonator"), cast.node()
    rights.grant(caller, may_be(ARBITRARY, "nodes", node1), may_do(ARBITRARY, "list"))

    named, other = (
        doors.ask(caller, "GET", pods_of(node), as_node(node)) for node in (node1, node2)
    )

    assert named.status == 200
    assert other.status == 403
    assert message_of(other).startswith(f'nodes.authentication.k8s.io "{node2}" is forbidden')


def test_a_permission_without_names_opens_any_node(
    cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, may_be(ARBITRARY, "nodes"), may_do(ARBITRARY, "list"))

    answers = [
        doors.ask(caller, "GET", pods_of(node), as_node(node)) for node in (cast.node(), "unknown")
    ]

    assert [response.status for response in answers] == [200, 200]


def test_permission_for_arbitrary_nodes_opens_no_user(
    cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, may_be(ARBITRARY, "nodes"), may_be(ARBITRARY, "users"))
    rights.grant(caller, may_do(ARBITRARY, "list"))

    response = doors.ask(caller, "GET", "/api/v1/pods", as_user("bob"))

    assert is_refused_impersonation(response)


@pytest.mark.parametrize("verb", ["user-info", "serviceaccount"])
def test_no_other_verb_opens_a_node(verb: str, cast: Cast, rights: Rights, doors: Doors) -> None:
    caller, node = cast.user("impersonator"), cast.node()
    rights.grant(caller, may_be(verb, "nodes"), may_be(verb, "users"), may_do(verb, "list"))
    rights.grant(caller, may_do(ARBITRARY, "list"))

    response = doors.ask(caller, "GET", pods_of(node), as_node(node))

    assert response.status == 403
    assert "cannot impersonate:arbitrary-node" in message_of(response)


@pytest.mark.parametrize("headers", ["group", "uid", "extra"])
def test_a_node_with_any_other_impersonation_header_is_left_to_legacy(
    headers: str, agent: Caller, node1: str, rights: Rights, doors: Doors
) -> None:
    rights.grant(agent, may_be(ARBITRARY, "nodes"), may_do(ARBITRARY, "list"))
    more = {
        "group": ("Impersonate-Group", "system:nodes"),
        "uid": ("Impersonate-Uid", "1"),
        "extra": ("Impersonate-Extra-Acme.io%2fkey", "1"),
    }

    response = doors.ask(agent, "GET", pods_of(node1), [*as_node(node1), more[headers]])

    assert response.status == 403
    assert 'cannot impersonate resource "users" in API group ""' in message_of(response)


@pytest.mark.parametrize("name", ["system:node:", "system:node:Upper", "system:nodes:x"])
def test_what_only_looks_like_a_node_is_a_user(
    name: str, cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, may_be("user-info", "users", name), may_ask_who("user-info"))

    seen = doors.acting(caller, as_user(name))

    assert seen["groups"] == ["system:authenticated"]


def test_whoever_last_used_legacy_is_tried_with_it_first_and_becomes_no_member_of_nodes(
    cast: Cast, node1: str, rights: Rights, doors: Doors
) -> None:
    """The mode that last worked is tried first, and legacy makes other groups than a node's."""
    caller = cast.user("impersonator")
    rights.grant(caller, may_be(ARBITRARY, "nodes", node1), may_ask_who(ARBITRARY))
    rights.grant(caller, may_impersonate("users"), may_impersonate("groups", "dev"))

    first = doors.acting(caller, as_node(node1))
    doors.acting(caller, as_user("bob", groups=["dev"]))
    second = doors.acting(caller, as_node(node1))

    assert first["groups"] == ["system:nodes", "system:authenticated"]
    assert second["groups"] == ["system:authenticated"]
