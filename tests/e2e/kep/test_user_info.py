"""Groups, uids and extras: each is its own permission, and some are nobody's."""

import pytest

from tests.e2e.kep.cast import Cast
from tests.support.impersonation import (
    Caller,
    Doors,
    Header,
    Rights,
    as_user,
    is_refused_impersonation,
    may_ask_who,
    may_be,
    message_of,
)

MODE = "user-info"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
KEY = "acme.io/tier"


@pytest.fixture
def impersonator(cast: Cast, rights: Rights) -> Caller:
    """May ask who it is as any plain user, and nothing more of them."""
    caller = cast.user("impersonator")
    rights.grant(caller, may_be(MODE, "users"), may_ask_who(MODE))
    return caller


def refusal(doors: Doors, caller: Caller, headers: list[Header]) -> str:
    response = doors.ask(caller, "POST", WHO, headers, body=REVIEW)
    assert response.status == 403
    return message_of(response)


@pytest.mark.parametrize(
    ("resource", "name", "wanted"),
    [
        ("groups", "ops", as_user("bob", groups=["ops"])),
        ("uids", "7", as_user("bob", uid="7")),
        (f"userextras/{KEY}", "gold", as_user("bob", extra=[("acme.io%2ftier", "gold")])),
    ],
    ids=["group", "uid", "extra"],
)
def test_each_part_of_an_identity_needs_its_own_permission(
    resource: str,
    name: str,
    wanted: list[Header],
    impersonator: Caller,
    rights: Rights,
    doors: Doors,
) -> None:
    refused = refusal(doors, impersonator, wanted)
    rights.grant(impersonator, may_be(MODE, resource, name))
    seen = doors.acting(impersonator, wanted)

    kind = resource.partition("/")[0]
    assert refused.startswith(f'{kind}.authentication.k8s.io "{name}" is forbidden')
    assert f'cannot impersonate:user-info resource "{resource}"' in refused
    assert seen["username"] == "bob"
    assert name in str(seen)


def test_the_user_name_needs_its_own_permission_even_when_all_else_is_allowed(
    cast: Cast, rights: Rights, doors: Doors
) -> None:
    caller = cast.user("impersonator")
    rights.grant(caller, may_be(MODE, "groups"), may_be(MODE, "uids"), may_ask_who(MODE))

    refused = refusal(doors, caller, as_user("bob", groups=["ops"], uid="7"))

    assert refused.startswith('users.authentication.k8s.io "bob" is forbidden')


def test_every_group_needs_permission(impersonator: Caller, rights: Rights, doors: Doors) -> None:
    rights.grant(impersonator, may_be(MODE, "groups", "dev", "ops"))

    seen = doors.acting(impersonator, as_user("bob", groups=["dev", "ops"]))
    refused = refusal(doors, impersonator, as_user("bob", groups=["dev", "ops", "root"]))

    assert seen["groups"] == ["dev", "ops", "system:authenticated"]
    assert refused.startswith('groups.authentication.k8s.io "root" is forbidden')


def test_every_value_of_an_extra_needs_permission(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, f"userextras/{KEY}", "gold", "red"))
    values = [("acme.io%2ftier", value) for value in ("gold", "red", "blue")]

    seen = doors.acting(impersonator, as_user("bob", extra=values[:2]))
    refused = refusal(doors, impersonator, as_user("bob", extra=values))

    assert seen["extra"] == {KEY: ["gold", "red"]}
    assert refused.startswith('userextras.authentication.k8s.io "blue" is forbidden')


def test_a_value_is_allowed_for_its_key_only(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, f"userextras/{KEY}", "gold"))

    refused = refusal(doors, impersonator, as_user("bob", extra=[("acme.io%2fother", "gold")]))

    assert 'resource "userextras/acme.io/other"' in refused


@pytest.mark.parametrize(
    ("resource", "wanted"),
    [
        ("groups", as_user("bob", groups=list("abcd"))),
        ("userextras/*", as_user("bob", extra=[("acme.io%2ftier", value) for value in "abcd"])),
    ],
    ids=["groups", "extras"],
)
def test_one_permission_for_all_serves_four_or_more(
    resource: str, wanted: list[Header], impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, resource, "*"))

    seen = doors.acting(impersonator, wanted)
    refused = refusal(doors, impersonator, wanted[:-1])

    assert seen["username"] == "bob"
    assert refused.startswith(f'{resource.partition("/")[0]}.authentication.k8s.io "a" is')


def test_masters_are_impersonated_by_no_constrained_permission(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "groups"), may_be(MODE, "groups", "system:masters"))

    refused = refusal(doors, impersonator, as_user("bob", groups=["dev", "system:masters"]))

    assert refused.startswith('groups.authentication.k8s.io "system:masters" is forbidden')
    assert refused.endswith(": impersonating the system:masters group is not allowed")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (as_user("bob", groups=[""]), "impersonating the empty string group is not allowed"),
        (
            as_user("bob", extra=[("", "x")]),
            "impersonating the empty string key in extra is not allowed",
        ),
        (
            as_user("bob", extra=[("scopes", "x")]),
            'extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as '
            '"acme.io/foo")',
        ),
        (
            as_user("bob", extra=[("acme.io%2f%46oo", "x")]),
            'impersonating a non-lowercase key in extra is not allowed: "acme.io/Foo"',
        ),
        (
            as_user("bob", extra=[("acme.io%2ffoo", "")]),
            "impersonating the empty string value in extra is not allowed",
        ),
    ],
    ids=["empty group", "empty key", "key without domain", "upper-case key", "empty value"],
)
def test_odd_parts_are_refused_whatever_the_permissions(
    wanted: list[Header], reason: str, impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    rights.grant(impersonator, may_be(MODE, "*"))

    refused = refusal(doors, impersonator, wanted)

    assert refused.endswith(reason)


@pytest.mark.parametrize(
    "headers",
    [
        [("Impersonate-Group", "dev")],
        [("Impersonate-Uid", "7")],
        [("Impersonate-Extra-Scopes", "a"), ("Impersonate-Extra-Scopes", "b")],
        [("Impersonate-User", ""), ("Impersonate-Group", "dev")],
    ],
    ids=["group", "uid", "extra", "empty user"],
)
def test_parts_of_an_identity_without_a_user_name_are_malformed(
    headers: list[Header], cast: Cast, doors: Doors
) -> None:
    response = doors.ask(cast.user(), "GET", "/version", headers)

    assert response.status == 400
    assert message_of(response).endswith("without impersonating a user name")


def test_system_users_are_users_like_any_other(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    seen = doors.acting(impersonator, as_user("system:kube-controller-manager"))

    assert seen["groups"] == ["system:authenticated"]


def test_the_anonymous_user_is_unauthenticated_again(
    impersonator: Caller, rights: Rights, doors: Doors
) -> None:
    response = doors.ask(impersonator, "POST", WHO, as_user("system:anonymous"), body=REVIEW)

    # Only authenticated users may ask who they are: the group has gone.
    assert not is_refused_impersonation(response)
    assert message_of(response).startswith("selfsubjectreviews.authentication.k8s.io is forbidden")
