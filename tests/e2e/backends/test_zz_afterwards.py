"""After all hostile answers of this package: what the proxy, its records and the backend hold."""

import json

import pytest

from tests.e2e.backends.stage import FORWARDER, REVIEWER, Stage

pytestmark = pytest.mark.timeout(60)

MEBIBYTE = 1024 * 1024
# 134 MB were measured at the highest, 108 of them before the first answer.
MOST_MEMORY = 200 * MEBIBYTE
NEVER_COUNTED = (
    "understudy_proxy_permission_denials_total",
    "understudy_upstream_connect_failures_total",
)


def test_the_backend_was_told_no_credential_and_no_name_of_the_proxy(backends: Stage) -> None:
    received = backends.backend.all_bytes()

    assert received
    for name, user in backends.users.items():
        assert user.token.value.encode() not in received, name
    for name in (FORWARDER, REVIEWER, "mpersonate-"):
        assert name.encode() not in received


def test_no_counter_of_the_proxys_own_identities_was_moved(backends: Stage) -> None:
    series = backends.metrics()

    watched = {name: value for name, value in series.items() if name.startswith(NEVER_COUNTED)}
    assert watched
    assert {name for name, value in watched.items() if value} == set()
    assert 'understudy_request_errors_total{reason="credential-refused"}' not in series
    assert series['understudy_proxy_permissions{finding="missing",identity="forwarder"}'] == 0


def test_nothing_failed_inside_the_proxy(backends: Stage) -> None:
    lines = [json.loads(line) for line in backends.log().splitlines()]

    assert [line for line in lines if line["level"] in {"error", "critical"}] == []


def test_every_audit_event_is_one_line_of_json(backends: Stage) -> None:
    lines = backends.audit_log.read_text().splitlines()

    assert len(lines) > 1
    assert {json.loads(line)["kind"] for line in lines} == {"Event"}


def test_the_proxy_is_alive_and_has_kept_little_memory(backends: Stage) -> None:
    assert backends.namespace.run(backends.page, "livez") == "ok"
    assert backends.namespace.run(backends.page, "readyz") == "ok"
    assert backends.memory("VmHWM") < MOST_MEMORY
