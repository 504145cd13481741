"""Goals, Non-Goals and the Proposal: two permissions, one for whom and one for what."""

import pytest

from tests.e2e.kep.cast import Cast
from tests.e2e.kep.scenes import MODES, Scene, set_scene
from tests.support.impersonation import (
    Doors,
    Rights,
    as_user,
    is_success,
    may,
    may_ask_who,
    may_be,
    may_do,
    may_impersonate,
    message_of,
)

OTHER_MODES = [(ours, other) for ours in MODES for other in MODES if ours != other]


def test_both_permissions_together_allow_the_action(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    response = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert response.status == 200


def test_without_any_permission_nothing_is_allowed(scene: Scene, doors: Doors) -> None:
    response = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert response.status == 403
    assert f'cannot impersonate-on:{scene.mode}:list resource "pods"' in message_of(response)


def test_permission_for_the_action_alone_gives_nothing(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(scene.caller, scene.action)

    response = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert response.status == 403
    assert f"cannot impersonate:{scene.mode} resource" in message_of(response)


def test_permission_for_the_identity_alone_gives_nothing(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(scene.caller, scene.identity)

    response = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert response.status == 403
    assert f'cannot impersonate-on:{scene.mode}:list resource "pods"' in message_of(response)


@pytest.mark.parametrize(("ours", "other"), OTHER_MODES)
def test_permissions_of_different_modes_do_not_add_up(
    ours: str, other: str, cast: Cast, doors: Doors, rights: Rights
) -> None:
    scene = set_scene(ours, cast, rights)
    rights.grant(scene.caller, scene.identity, may_do(other, "list"))

    response = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert response.status == 403
    assert f"cannot impersonate-on:{ours}:list" in message_of(response)


def test_the_target_must_be_allowed_the_action_too(
    cast: Cast, doors: Doors, rights: Rights
) -> None:
    caller, poor = cast.user("impersonator"), cast.user("poor")
    rights.grant(caller, may_be("user-info", "users"), may_do("user-info", "list"))

    response = doors.ask(caller, "GET", "/api/v1/pods", as_user(poor.name))

    assert response.status == 403
    assert message_of(response).startswith(f'pods is forbidden: User "{poor.name}" cannot list')


def test_the_impersonator_needs_no_permission_for_the_action_itself(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    itself = doors.ask(scene.caller, "GET", scene.path)
    as_target = doors.ask(scene.caller, "GET", scene.path, scene.headers)

    assert itself.status == 403
    assert as_target.status == 200


def test_a_request_without_impersonation_headers_needs_none_of_this(
    cast: Cast, doors: Doors, rights: Rights
) -> None:
    bob = cast.user("bob", groups=["developers"], uid="bob-uid")
    rights.grant(bob, may("list"))

    assert doors.ask(bob, "GET", "/api/v1/pods").status == 200
    assert doors.acting(bob)["groups"] == ["developers", "system:authenticated"]


@pytest.mark.parametrize("kind", ["user", "serviceaccount", "node"])
def test_existing_impersonation_keeps_working_without_any_new_permission(
    kind: str, cast: Cast, doors: Doors, rights: Rights
) -> None:
    caller, robot = cast.user("former"), cast.service_account()
    rights.grant(robot, may("list"))
    names = {"user": "someone", "serviceaccount": robot.name, "node": "system:node:somewhere"}
    resource = "serviceaccounts" if kind == "serviceaccount" else "users"
    rights.grant(caller, may_impersonate(resource))

    seen = doors.acting(caller, as_user(names[kind]))

    assert seen["username"] == names[kind]


def test_existing_impersonation_of_groups_uids_and_extras_keeps_working(
    cast: Cast, doors: Doors, rights: Rights
) -> None:
    caller = cast.user("former")
    rights.grant(caller, *(may_impersonate(each) for each in ("users", "groups", "uids")))
    rights.grant(caller, may_impersonate("userextras/scopes"))
    wanted = as_user("someone", groups=["ops"], uid="7", extra=[("Scopes", "a"), ("Scopes", "b")])

    seen = doors.acting(caller, wanted)

    assert seen == {
        "username": "someone",
        "uid": "7",
        "groups": ["ops", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
    }


def test_the_cluster_does_not_learn_who_impersonates(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(scene.caller, scene.identity, may_ask_who(scene.mode))

    seen = doors.acting(scene.caller, scene.headers)

    assert seen["username"] == scene.target
    assert scene.caller.name not in str(seen)
    assert "extra" not in seen


def test_each_mode_makes_the_groups_of_its_kind(scene: Scene, doors: Doors, rights: Rights) -> None:
    rights.grant(scene.caller, scene.identity, may_ask_who(scene.mode))

    seen = doors.acting(scene.caller, scene.headers)

    namespace = scene.target.split(":")[2] if scene.mode == "serviceaccount" else ""
    groups = {
        "user-info": [],
        "serviceaccount": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"],
    }
    assert seen["groups"] == [*groups.get(scene.mode, ["system:nodes"]), "system:authenticated"]


def test_a_permission_in_one_namespace_is_one_for_that_namespace(
    cast: Cast, doors: Doors, rights: Rights
) -> None:
    caller, bob = cast.user("impersonator"), cast.user("bob")
    here, there = cast.namespace(), cast.namespace()
    rights.grant(bob, may("list"))
    rights.grant(caller, may_be("user-info", "users", bob.name))
    rights.grant(caller, may_do("user-info", "list"), namespace=here)

    inside, outside, everywhere = (
        doors.ask(caller, "GET", path, as_user(bob.name))
        for path in (
            f"/api/v1/namespaces/{here}/pods",
            f"/api/v1/namespaces/{there}/pods",
            "/api/v1/pods",
        )
    )

    assert is_success(inside)
    assert (outside.status, everywhere.status) == (403, 403)
