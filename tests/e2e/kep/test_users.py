"""The test plan's first item: bob may be impersonated, alice not; some actions, others not."""

import pytest

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.objects import path_of
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    Caller,
    Doors,
    Header,
    Rights,
    as_user,
    is_refused_impersonation,
    may,
    may_be,
    may_do,
    message_of,
)

EVERYTHING = may("*", resources=["pods", "pods/exec", "pods/log"])

# What the test plan prints: a rule without apiGroups, and `pod` for `pods`.
AS_PRINTED: Manifest = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "impersonate-pod-action", "namespace": "default"},
    "rules": [
        {
            "resources": ["pods", "pod/exec"],
            "verbs": ["impersonate-on:user-info:list", "impersonate-on:user-info:get"],
        }
    ],
}


@pytest.fixture
def namespace(cast: Cast) -> str:
    return cast.namespace()


@pytest.fixture
def pod(cast: Cast, namespace: str) -> str:
    name: str = cast.pod(namespace)["metadata"]["name"]
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


@pytest.fixture
def bob(cast: Cast, rights: Rights) -> list[Header]:
    """Bob may do everything with pods, so that a refusal is never his own."""
    name = fresh_name("bob")
    rights.grant(name, EVERYTHING)
    return as_user(name)


@pytest.fixture
def impersonator(cast: Cast, rights: Rights, bob: list[Header], namespace: str) -> Caller:
    """Holds the test plan's permissions, as they were meant."""
    caller = cast.user("impersonator")
    rights.grant(caller, may_be("user-info", "users", bob[0][1]))
    actions = may_do("user-info", "list", "get", resources=["pods", "pods/exec"])
    rights.grant(caller, actions, namespace=namespace)
    return caller


def test_the_impersonator_can_impersonate_bob(
    impersonator: Caller, bob: list[Header], pod: str, doors: Doors
) -> None:
    assert doors.ask(impersonator, "GET", pod, bob).status == 200


def test_the_impersonator_cannot_impersonate_alice(
    impersonator: Caller, rights: Rights, pod: str, doors: Doors
) -> None:
    rights.grant(alice := fresh_name("alice"), EVERYTHING)

    response = doors.ask(impersonator, "GET", pod, as_user(alice))

    assert response.status == 403
    assert message_of(response) == (
        f'users.authentication.k8s.io "{alice}" is forbidden: User "{impersonator.name}" cannot '
        'impersonate:user-info resource "users" in API group "authentication.k8s.io" at the '
        "cluster scope"
    )


def test_the_impersonator_can_list_and_get_pods(
    impersonator: Caller, bob: list[Header], pod: str, doors: Doors
) -> None:
    collection = pod.rpartition("/")[0]

    listed, got = (doors.ask(impersonator, "GET", path, bob) for path in (collection, pod))

    assert (listed.status, got.status) == (200, 200)


def test_the_impersonator_cannot_update_pods(
    impersonator: Caller, bob: list[Header], pod: str, doors: Doors
) -> None:
    response = doors.ask(impersonator, "PUT", pod, bob, body={})

    assert response.status == 403
    assert 'cannot impersonate-on:user-info:update resource "pods"' in message_of(response)


def test_the_impersonator_can_get_the_exec_subresource(
    impersonator: Caller, bob: list[Header], pod: str, doors: Doors
) -> None:
    response = doors.ask(impersonator, "GET", f"{pod}/exec?command=id", bob)

    # Past every check: the API server now only misses the upgrade of the connection.
    assert response.status == 400
    assert message_of(response) == "Upgrade request required"


def test_the_impersonator_cannot_get_the_log_subresource(
    impersonator: Caller, bob: list[Header], pod: str, doors: Doors
) -> None:
    response = doors.ask(impersonator, "GET", f"{pod}/log", bob)

    assert response.status == 403
    assert 'cannot impersonate-on:user-info:get resource "pods/log"' in message_of(response)


def test_a_subresource_is_closed_until_the_right_permissions_are_set(
    cast: Cast, bob: list[Header], pod: str, doors: Doors, rights: Rights
) -> None:
    caller, path = cast.user("impersonator"), f"{pod}/exec?command=id"
    steps = [
        may_be("user-info", "users", bob[0][1]),
        may_do("user-info", "get"),
        may_do("user-info", "create", resources=["pods/exec"]),
        may_do("user-info", "get", resources=["pods/log"]),
    ]

    for rule in steps:
        rights.grant(caller, rule)
        assert is_refused_impersonation(doors.ask(caller, "GET", path, bob)), rule

    rights.grant(caller, may_do("user-info", "get", resources=["pods/exec"]))
    assert message_of(doors.ask(caller, "GET", path, bob)) == "Upgrade request required"


def test_the_test_plans_role_as_printed_is_not_valid(admin: ApiClient) -> None:
    collection = path_of(AS_PRINTED).rpartition("/")[0]

    response = admin.request("POST", f"{collection}?dryRun=All", body=AS_PRINTED)

    assert response.status == 422
    assert "resource rules must supply at least one api group" in message_of(response)
