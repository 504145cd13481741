"""Every row of the policy table, put to our own evaluation, to the proxy, and to the native server.

The native server is the judge of the table; the proxy is asked for the same policy file.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.audit_events import Event, events_of
from tests.support.audit_policy_rows import (
    POLICY_WIDE,
    POLICY_WIDE_ROWS,
    ROWS,
    Row,
    policy_of,
)
from tests.support.control_plane import fresh_name

pytestmark = pytest.mark.timeout(120)

ALL_ROWS = [*ROWS, *POLICY_WIDE_ROWS]
LAST = Row("last", [{"level": "Metadata"}], "Metadata")
POLICIES: list[tuple[list[Row], dict[str, Any]]] = [
    ([*ROWS, LAST], {}),
    ([*POLICY_WIDE_ROWS, LAST], POLICY_WIDE),
]
Recorded = dict[str, list[Event]]


def ask_all(
    control_plane: ControlPlane, door: ApiServer | Understudy, rows: Sequence[Row]
) -> Recorded:
    """Ask what each row asks, and return what was recorded of it when all are done."""
    ids = {}
    for row in rows:
        ids[row.id] = fresh_name(row.id)
        credential: Credential = None
        if not row.is_nobody:
            credential = control_plane.clients.issue_client(row.user_name, groups=row.group_names)
        door.client(credential).request(row.method, row.target, headers=[("Audit-ID", ids[row.id])])
    # Events are written in the order of requests, so that the last row's come last.
    counts = {row.id: len(row.expected_stages) for row in rows}
    return {name: events_of(door.audit_log, ids[name], count=counts[name]) for name in ids}


@pytest.fixture(scope="module")
def native(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[Recorded]:
    with ExitStack() as running:
        servers = control_plane.start_api_servers(
            *(
                ApiServerOptions(
                    name=fresh_name("policy"),
                    audit_policy=json.dumps(policy_of(rows, **wide)),
                    extra_flags=("--anonymous-auth=false",),
                )
                for rows, wide in POLICIES
            )
        )
        recorded: Recorded = {}
        for server, (rows, _) in zip(servers, POLICIES, strict=True):
            running.enter_context(closing(server))
            recorded |= ask_all(control_plane, server, rows)
        yield recorded


@pytest.fixture(scope="module")
def ours(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recorded:
    recorded: Recorded = {}
    for rows, wide in POLICIES:
        directory = tmp_path_factory.mktemp("policy")
        policy = directory / "policy.yaml"
        policy.write_text(json.dumps(policy_of(rows, **wide)))
        with running_understudy(
            control_plane,
            plain_api_server,
            directory,
            audit={"policyFile": str(policy)},
            # Nobody with this group is let through otherwise, and a row needs the rights.
            impersonation={"protectedGroups": []},
        ) as running:
            recorded |= ask_all(control_plane, running, rows)
    return recorded


@pytest.mark.parametrize("row", ALL_ROWS, ids=lambda row: row.id)
def test_the_proxy_and_the_native_server_record_the_same(
    row: Row, native: Recorded, ours: Recorded
) -> None:
    for recorded in (native, ours):
        events = recorded[row.id]
        assert tuple(event["stage"] for event in events) == row.expected_stages
        assert {event["level"] for event in events} <= {row.level}


def test_a_rule_overrides_what_the_policy_says_of_managed_fields(
    native: Recorded, ours: Recorded
) -> None:
    for recorded in (native, ours):
        (wide,), (own,) = recorded["wide-managed-fields"], recorded["own-managed-fields"]
        assert "managedFields" not in wide["responseObject"]["metadata"]
        assert "managedFields" in own["responseObject"]["metadata"]
