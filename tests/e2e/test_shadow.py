"""What legacy impersonation would come to without it, found out beside real requests."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.impersonation import (
    Caller,
    Rights,
    as_node,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
    poll,
)

PODS = "/api/v1/namespaces/default/pods"
OUTCOMES = (("dropped", ""), ("would-deny", "user-info"))
SHADOWED = "understudy_shadow_requests_total"


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("understudy")
    # Every caller's first mode is tried first, so that who has both rights uses the constrained.
    impersonation: dict[str, object] = {"shadow": {"enabled": True}, "successTTL": "0s"}
    with running_understudy(
        control_plane, plain_api_server, directory, impersonation=impersonation
    ) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture
def robot(cast: Cast, rights: Rights) -> Caller:
    """Who may be anybody by the unrestricted verb, and nobody by another."""
    robot = cast.user("robot")
    rights.grant(robot, may_impersonate("users"), may_impersonate("groups"))
    return robot


def shadowed(understudy: Understudy, outcome: str, mode: str) -> float:
    page = [line for line in understudy.metrics().splitlines() if line.startswith(SHADOWED)]
    return sum(
        sample.value
        for family in text_string_to_metric_families("\n".join([*page, ""]))
        for sample in family.samples
        if sample.labels == {"outcome": outcome, "mode": mode}
    )


def judgements(understudy: Understudy, audit_id: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in understudy.log().splitlines() if audit_id in line]
    return [line for line in lines if "legacy impersonation evaluated" in line.values()]


def ask(
    understudy: Understudy, caller: Caller, headers: list[tuple[str, str]], audit_id: str
) -> int:
    sent = [*headers, ("Audit-ID", audit_id)]
    return understudy.client(caller.credential).request("GET", PODS, headers=sent).status


def test_what_would_be_denied_is_counted_and_told_with_what_is_missing(
    understudy: Understudy, cast: Cast, rights: Rights, robot: Caller
) -> None:
    bob = cast.user("bob")
    rights.grant(bob, may("list"))
    before = shadowed(understudy, "would-deny", "user-info")

    status = ask(understudy, robot, as_user(bob.name), "shadow-denied")

    assert status == 200
    poll(
        lambda: shadowed(understudy, "would-deny", "user-info") == before + 1,
        "the shadow has not counted",
    )
    (line,) = judgements(understudy, "shadow-denied")
    assert (line["caller"], line["target"]) == (robot.name, bob.name)
    assert line["missing"] == "impersonate-on:user-info:list pods in default"


def test_what_would_be_allowed_is_counted(
    understudy: Understudy, cast: Cast, rights: Rights, robot: Caller
) -> None:
    bob, carol = cast.user("bob"), cast.user("carol")
    for one in (bob, carol):
        rights.grant(one, may("list"))
    # The unrestricted verb is what worked last, so it is tried first from now on.
    assert ask(understudy, robot, as_user(carol.name), "shadow-first") == 200
    rights.grant(robot, may_do("user-info", "list"), may_be("user-info", "users", bob.name))
    before = shadowed(understudy, "would-allow", "user-info")

    status = ask(understudy, robot, as_user(bob.name), "shadow-allowed")

    assert status == 200
    poll(
        lambda: shadowed(understudy, "would-allow", "user-info") == before + 1,
        "the shadow has not counted",
    )
    assert judgements(understudy, "shadow-allowed") == []


def test_what_no_grant_can_mend_is_told_so(
    understudy: Understudy, cast: Cast, robot: Caller
) -> None:
    node = cast.node()
    before = shadowed(understudy, "would-deny", "none")

    # Whether the node itself may list is the API server's business.
    ask(understudy, robot, [*as_node(node), ("Impersonate-Group", "system:nodes")], "shadow-none")

    poll(
        lambda: shadowed(understudy, "would-deny", "none") == before + 1,
        "the shadow has not counted",
    )
    (line,) = judgements(understudy, "shadow-none")
    assert "no constrained mode" in line["missing"]


def test_a_reload_turns_the_shadow_off(
    understudy: Understudy, cast: Cast, rights: Rights, robot: Caller
) -> None:
    bob = cast.user("bob")
    rights.grant(bob, may("list"))
    understudy.reload(shadow={"enabled": False})
    try:
        assert ask(understudy, robot, as_user(bob.name), "shadow-off") == 200
    finally:
        understudy.reload(shadow={"enabled": True}, successTTL="0s")
    assert ask(understudy, robot, as_user(bob.name), "shadow-on") == 200

    poll(lambda: bool(judgements(understudy, "shadow-on")), "the shadow has not judged")
    assert judgements(understudy, "shadow-off") == []


def test_a_flood_is_served_whole_and_judged_in_part(
    understudy: Understudy, cast: Cast, rights: Rights, robot: Caller
) -> None:
    crowd = cast.user("crowd")
    rights.grant(crowd, may("get"))
    understudy.reload(shadow={"enabled": True, "inFlight": 1, "queueSize": 1, "perSecond": 1})
    before = {outcome: shadowed(understudy, *outcome) for outcome in OUTCOMES}
    try:
        client = understudy.client(robot.credential)
        with client.connect() as connection:
            statuses = [
                connection.request(
                    "GET", f"{PODS}/none-{number}", headers=as_user(crowd.name)
                ).status
                for number in range(60)
            ]
        poll(
            lambda: sum(shadowed(understudy, *one) - before[one] for one in OUTCOMES) == 60,
            "the shadow has not counted everything",
        )
    finally:
        understudy.reload(shadow={"enabled": True}, successTTL="0s")

    # There are no such pods, and not one request is refused for the shadow's sake.
    assert set(statuses) == {404}
    assert shadowed(understudy, "dropped", "") - before["dropped", ""] > 0
    assert shadowed(understudy, "would-deny", "user-info") > before["would-deny", "user-info"]
