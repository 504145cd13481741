"""The audit policy is replaced while requests are served, whole or not at all."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.audit_events import events_of
from tests.support.control_plane import fresh_name
from tests.support.impersonation import poll

NOTHING = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
WHOLE = NOTHING.replace("None", "RequestResponse")
WRONG = WHOLE.replace("rules", "rulez")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(WHOLE)
    return file


@pytest.fixture
def understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path, policy: Path
) -> Iterator[Understudy]:
    with running_understudy(
        control_plane, plain_api_server, tmp_path, audit={"policyFile": str(policy)}
    ) as running:
        yield running


def test_a_good_policy_is_used_and_a_bad_one_is_told_and_left(
    control_plane: ControlPlane, understudy: Understudy, policy: Path
) -> None:
    client = understudy.client(control_plane.clients.issue_client(fresh_name("auditee")))

    def levels(count: int) -> list[str]:
        audit_id = fresh_name("reloaded")
        client.request("GET", "/version", headers=[("Audit-ID", audit_id)])
        return [event["level"] for event in events_of(understudy.audit_log, audit_id, count=count)]

    def reload(text: str, expected: str) -> None:
        policy.write_text(text)
        before = understudy.log().count(expected)
        understudy.process.process.send_signal(signal.SIGHUP)
        poll(lambda: understudy.log().count(expected) > before, f"never said: {expected}")

    assert levels(2) == ["RequestResponse"] * 2

    reload(NOTHING, "config reloaded")
    silent = levels(0)
    reload(WRONG, "config not reloaded")
    still_silent = levels(0)
    reload(WHOLE, "config reloaded")

    # Later events are written after earlier ones: what is not there now never came.
    assert levels(2) == ["RequestResponse"] * 2
    assert silent == still_silent == []
    assert "rules: is required" in understudy.log()
    series = 'understudy_audit_policy_reloads_total{outcome="'
    counts = [line for line in understudy.metrics().splitlines() if line.startswith(series)]
    read = {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in counts}
    # More where the file was looked at besides: what stays unusable counts at every look.
    assert read.keys() == {"used", "refused"}
    assert (read["used"] >= 2, read["refused"] >= 1) == (True, True)


def test_a_bad_policy_keeps_the_proxy_from_starting(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path, policy: Path
) -> None:
    policy.write_text(WRONG)

    with (
        pytest.raises(Exception, match="rules: is required"),
        running_understudy(
            control_plane, plain_api_server, tmp_path, audit={"policyFile": str(policy)}
        ),
    ):
        pass
