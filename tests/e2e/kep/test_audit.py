"""Auditing: who called, whom they became, and by which constraint; event beside native event."""

from collections.abc import Callable
from typing import Any

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, forwarder_name
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.scenes import Scene
from tests.e2e.kep.understudy import Understudy, complete_event
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Doors, Header, Rights, as_user, may_impersonate

PODS = "/api/v1/namespaces/default/pods?limit=500"
# What an event tells of a request, apart from when it was and from what only one side can know.
COMPARED = (
    "kind",
    "apiVersion",
    "level",
    "stage",
    "requestURI",
    "verb",
    "user",
    "impersonatedUser",
    "authenticationMetadata",
    "sourceIPs",
    "userAgent",
    "objectRef",
)

Event = dict[str, Any]
Audited = Callable[..., Event]


@pytest.fixture
def audited(doors: Doors, understudy: Understudy, native_api_server: ApiServer) -> Audited:
    """Ask, and return our event of it, which must tell the same as the native server's."""

    def ask(caller: Caller, headers: list[Header], path: str = PODS) -> Event:
        audit_id = fresh_name("audit")
        headers = [*headers, ("Audit-ID", audit_id), ("User-Agent", "kep/1")]
        response = doors.ask(caller, "GET", path, headers)
        ours, native = (
            complete_event(log, audit_id)
            for log in (understudy.audit_log, native_api_server.audit_log)
        )
        assert response.header("Audit-ID") == audit_id
        assert ours["responseStatus"]["code"] == native["responseStatus"]["code"]
        for field in COMPARED:
            assert ours.get(field) == native.get(field), field
        return ours

    return ask


def test_the_constraint_of_a_mode_is_recorded(
    scene: Scene, rights: Rights, audited: Audited
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    event = audited(scene.caller, scene.headers, scene.path)

    assert event["user"]["username"] == scene.caller.name
    assert event["impersonatedUser"]["username"] == scene.target
    assert event["authenticationMetadata"] == {
        "impersonationConstraint": f"impersonate:{scene.mode}"
    }


def test_the_keps_example_event(cast: Cast, audited: Audited) -> None:
    """An administrator impersonates a panda, who may not list pods."""
    administrator = cast.user("system:admin", groups=["system:masters"])

    event = audited(administrator, as_user("panda"))

    assert event["verb"] == "list"
    assert event["requestURI"] == PODS
    assert event["user"]["groups"] == ["system:masters", "system:authenticated"]
    assert list(event["user"]["extra"]) == ["authentication.kubernetes.io/credential-id"]
    assert event["impersonatedUser"] == {"username": "panda", "groups": ["system:authenticated"]}
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["objectRef"] == {"resource": "pods", "namespace": "default", "apiVersion": "v1"}
    assert event["responseStatus"]["code"] == 403


def test_events_of_legacy_impersonation_are_as_they_were(
    cast: Cast, rights: Rights, audited: Audited
) -> None:
    caller = cast.user("former")
    rights.grant(caller, may_impersonate("users"), may_impersonate("groups"))

    event = audited(caller, as_user("panda", groups=["bears"]))

    assert event["impersonatedUser"]["groups"] == ["bears", "system:authenticated"]
    assert "authenticationMetadata" not in event


def test_events_without_impersonation_are_as_they_were(cast: Cast, audited: Audited) -> None:
    event = audited(cast.user("bob"), [])

    assert "impersonatedUser" not in event
    assert "authenticationMetadata" not in event


@pytest.mark.parametrize(
    "headers", [as_user("panda"), [("Impersonate-Group", "bears")]], ids=["refused", "malformed"]
)
def test_an_impersonation_that_failed_impersonated_nobody(
    headers: list[Header],
    cast: Cast,
    audited: Audited,
    understudy: Understudy,
    native_api_server: ApiServer,
) -> None:
    event = audited(cast.user("bob"), headers)

    native = complete_event(native_api_server.audit_log, event["auditID"])
    assert "impersonatedUser" not in event
    assert "authenticationMetadata" not in event
    assert event["responseStatus"] == native["responseStatus"]
    assert "annotations" not in native


def test_the_clusters_own_audit_shows_the_target_under_the_same_id(
    scene: Scene, rights: Rights, audited: Audited, plain_api_server: ApiServer
) -> None:
    rights.grant(scene.caller, scene.identity, scene.action)

    event = audited(scene.caller, scene.headers, scene.path)

    behind = complete_event(plain_api_server.audit_log, event["auditID"])
    assert behind["user"]["username"] == forwarder_name([ALL_EXTRAS])
    assert behind["impersonatedUser"] == event["impersonatedUser"]
