"""Permission delegation, and the risks that the KEP accepts: unions, and no partial wildcards."""

import pytest

from proxy.sandbox.api_client import APIResponse
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    RBAC,
    Caller,
    Doors,
    Rights,
    Rule,
    as_user,
    is_refused_impersonation,
    is_success,
    may,
    may_be,
    may_do,
    message_of,
    user_subject,
)

ROLES = f"/apis/{RBAC}/v1/clusterroles"
BINDINGS = f"/apis/{RBAC}/v1/clusterrolebindings"
PODS = "/api/v1/pods"


@pytest.fixture
def bob(cast: Cast, rights: Rights) -> Caller:
    """Manages roles, and may list pods as users."""
    caller = cast.user("bob")
    kinds = ["clusterroles", "clusterrolebindings"]
    rights.grant(caller, may("create", resources=kinds, group=RBAC))
    rights.grant(caller, may_be("user-info", "users"), may_do("user-info", "list"))
    return caller


def delegate(doors: Doors, bob: Caller, alice: Caller, rule: Rule) -> list[APIResponse]:
    """Let bob give alice a rule through the proxy; both doors are asked before it is done."""
    name = fresh_name("delegated")
    metadata = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    role = {**metadata, "kind": "ClusterRole", "rules": [rule]}
    binding = {
        **metadata,
        "kind": "ClusterRoleBinding",
        "subjects": [user_subject(alice.name)],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
    }
    answers = []
    for path, manifest in ((ROLES, role), (BINDINGS, binding)):
        answers.append(doors.ask(bob, "POST", f"{path}?dryRun=All", body=manifest))
        if not is_success(answers[-1]):
            break
        doors.ours(bob.credential).call("POST", path, body=manifest)
    return answers


@pytest.mark.parametrize(
    ("delegated", "alices_own"),
    [
        (may_be("user-info", "users"), may_do("user-info", "list")),
        (may_do("user-info", "list"), may_be("user-info", "users")),
    ],
    ids=["impersonate:user-info", "impersonate-on:user-info:list on pods"],
)
def test_bob_can_delegate_what_he_holds_to_alice(
    delegated: Rule, alices_own: Rule, bob: Caller, cast: Cast, doors: Doors, rights: Rights
) -> None:
    alice, target = cast.user("alice"), cast.user("someone")
    rights.grant(target, may("list"))
    rights.grant(alice, alices_own)
    before = doors.ask(alice, "GET", PODS, as_user(target.name))

    answers = delegate(doors, bob, alice, delegated)
    rights.wait_for(alice.name, delegated)
    after = doors.ask(alice, "GET", PODS, as_user(target.name))

    assert is_refused_impersonation(before)
    assert [response.status for response in answers] == [201, 201]
    assert after.status == 200


@pytest.mark.parametrize(
    "rule",
    [
        may_be("arbitrary-node", "nodes"),
        may_do("user-info", "update"),
        may_be("user-info", "groups"),
        may_do("arbitrary-node", "list"),
        may_do("user-info", "list", resources=["secrets"]),
    ],
    ids=[
        "impersonate:arbitrary-node",
        "impersonate-on:user-info:update on pods",
        "another resource of the identity",
        "another mode of the action",
        "another resource of the action",
    ],
)
def test_bob_cannot_delegate_what_he_does_not_hold(
    rule: Rule, bob: Caller, cast: Cast, doors: Doors
) -> None:
    (response,) = delegate(doors, bob, cast.user("alice"), rule)

    assert response.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in message_of(response)


@pytest.mark.parametrize(
    "rules",
    [
        [may_be("*", "users"), may_do("user-info", "list")],
        [may_be("user-info", "users"), may_do("user-info", "*")],
        [may_be("user-info", "users"), may_do("*", "list")],
        [may_be("user-info", "users"), may("impersonate-on:*")],
    ],
    ids=["any mode to be", "any verb to do", "any mode to do", "anything to do"],
)
def test_a_partial_wildcard_in_a_verb_opens_nothing(
    rules: list[Rule], cast: Cast, doors: Doors, rights: Rights
) -> None:
    caller, target = cast.user("impersonator"), cast.user("someone")
    rights.grant(target, may("list"))
    rights.grant(caller, *rules)

    response = doors.ask(caller, "GET", PODS, as_user(target.name))

    assert is_refused_impersonation(response)


def test_permissions_are_a_union(cast: Cast, doors: Doors, rights: Rights) -> None:
    """Two intentions, someone for pods and another for secrets, cannot be told apart."""
    caller, someone, other = (cast.user(each) for each in ("impersonator", "someone", "other"))
    for target in (someone, other):
        rights.grant(target, may("list", resources=["pods", "secrets"]))
    rights.grant(caller, may_be("user-info", "users", someone.name), may_do("user-info", "list"))
    rights.grant(caller, may_be("user-info", "users", other.name))
    rights.grant(caller, may_do("user-info", "list", resources=["secrets"]))

    answers = [
        doors.ask(caller, "GET", f"/api/v1/{resource}", as_user(target.name))
        for target in (someone, other)
        for resource in ("pods", "secrets")
    ]

    assert [response.status for response in answers] == [200, 200, 200, 200]
