"""Service accounts: by name, by namespace, and never by another mode's verb."""

import pytest

from tests.e2e.kep.cast import Cast
from tests.support.impersonation import (
    Caller,
    Doors,
    Rights,
    as_user,
    is_refused_impersonation,
    may,
    may_ask_who,
    may_be,
    may_do,
    message_of,
)

MODE = "serviceaccount"
PODS = "/api/v1/pods"


@pytest.fixture
def robot(cast: Cast, rights: Rights) -> Caller:
    """A service account that may list pods."""
    account = cast.service_account()
    rights.grant(account, may("list"))
    return account


@pytest.fixture
def impersonator(cast: Cast, rights: Rights) -> Caller:
    """May list pods as some service account; which, is for the test to say."""
    caller = cast.user("impersonator")
    rights.grant(caller, may_do(MODE, "list"))
    return caller


def test_the_named_service_account_can_be_impersonated(
    robot: Caller, impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "serviceaccounts", robot.subject["name"]))

    assert doors.ask(impersonator, "GET", PODS, as_user(robot.name)).status == 200


def test_another_service_account_cannot_be_impersonated(
    robot: Caller, impersonator: Caller, cast: Cast, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "serviceaccounts", robot.subject["name"]))
    other = cast.service_account(namespace=robot.subject["namespace"])
    name, namespace = other.subject["name"], other.subject["namespace"]

    response = doors.ask(impersonator, "GET", PODS, as_user(other.name))

    assert response.status == 403
    assert message_of(response) == (
        f'serviceaccounts.authentication.k8s.io "{name}" is forbidden: User "{impersonator.name}" '
        'cannot impersonate:serviceaccount resource "serviceaccounts" in API group '
        f'"authentication.k8s.io" in the namespace "{namespace}"'
    )


def test_a_role_opens_the_service_accounts_of_its_namespace(
    robot: Caller, impersonator: Caller, cast: Cast, rights: Rights, doors: Doors
) -> None:
    namespace = robot.subject["namespace"]
    rights.grant(impersonator, may_be(MODE, "serviceaccounts"), namespace=namespace)
    neighbour = cast.service_account(namespace=namespace)
    rights.grant(neighbour, may("list"))
    stranger = cast.service_account()

    answers = [
        doors.ask(impersonator, "GET", PODS, as_user(account.name))
        for account in (robot, neighbour, stranger)
    ]

    assert [response.status for response in answers] == [200, 200, 403]


def test_the_role_must_be_where_the_service_account_is_not_where_the_action_is(
    robot: Caller, cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller, elsewhere = cast.user("impersonator"), cast.namespace()
    path = f"/api/v1/namespaces/{elsewhere}/pods"
    rights.grant(caller, may_be(MODE, "serviceaccounts"), may_do(MODE, "list"), namespace=elsewhere)

    before = doors.ask(caller, "GET", path, as_user(robot.name))
    rights.grant(caller, may_be(MODE, "serviceaccounts"), namespace=robot.subject["namespace"])
    after = doors.ask(caller, "GET", path, as_user(robot.name))

    assert (before.status, after.status) == (403, 200)


def test_a_service_account_can_impersonate_another(
    robot: Caller, cast: Cast, rights: Rights, doors: Doors
) -> None:
    controller = cast.service_account()
    rights.grant(controller, may_be(MODE, "serviceaccounts"), may_do(MODE, "list"))

    assert doors.ask(controller, "GET", PODS, as_user(robot.name)).status == 200


@pytest.mark.parametrize("verb", ["user-info", "arbitrary-node"])
def test_no_other_verb_opens_a_service_account(
    verb: str, robot: Caller, impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(verb, "serviceaccounts"), may_be(verb, "users"))
    rights.grant(impersonator, may_do(verb, "list"))

    response = doors.ask(impersonator, "GET", PODS, as_user(robot.name))

    assert response.status == 403
    assert "cannot impersonate:serviceaccount" in message_of(response)


def test_permission_for_service_accounts_opens_no_user(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "serviceaccounts"), may_be(MODE, "users"))

    response = doors.ask(impersonator, "GET", PODS, as_user("bob"))

    assert is_refused_impersonation(response)


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid"])
def test_a_service_account_with_any_other_impersonation_header_is_left_to_legacy(
    header: str, robot: Caller, impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "serviceaccounts"))

    response = doors.ask(impersonator, "GET", PODS, [*as_user(robot.name), (header, "1")])

    assert response.status == 403
    assert 'cannot impersonate resource "serviceaccounts" in API group ""' in message_of(response)


@pytest.mark.parametrize(
    "name", ["system:serviceaccount:one", "system:serviceaccount:a:B", "system:serviceaccounts:a:b"]
)
def test_what_only_looks_like_a_service_account_is_a_user(
    name: str, cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, may_be("user-info", "users", name), may_ask_who("user-info"))

    seen = doors.acting(caller, as_user(name))

    assert seen["groups"] == ["system:authenticated"]
