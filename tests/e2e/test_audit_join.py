"""`understudy audit join` on a real run: our log and that of the API server behind us."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, forwarder_name
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    Caller,
    Rights,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
)

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@dataclass(frozen=True, slots=True)
class Run:
    """A proxy, and where the cluster's log was when it began."""

    understudy: Understudy
    cluster_log: Path
    offset: int
    directory: Path

    def join(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Join our log and what the cluster has written since the beginning."""
        cluster_log = self.directory / "cluster.log"
        with self.cluster_log.open("rb") as file:
            file.seek(self.offset)
            cluster_log.write_bytes(file.read().rpartition(b"\n")[0] + b"\n")
        command = [sys.executable, "-m", "proxy", "audit", "join", *options]
        return subprocess.run(
            [*command, self.understudy.audit_log, cluster_log],
            capture_output=True,
            text=True,
            check=False,
        )

    def settle(self, client: ApiClient) -> None:
        """Wait until both logs hold all that was asked so far."""
        last = client.request("GET", "/version").header("Audit-Id") or ""
        complete_event(self.understudy.audit_log, last)
        complete_event(self.cluster_log, last)


@pytest.fixture
def run(control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path) -> Iterator[Run]:
    audit_log = plain_api_server.audit_log
    offset = audit_log.stat().st_size
    with running_understudy(control_plane, plain_api_server, tmp_path) as understudy:
        yield Run(understudy, audit_log, offset, tmp_path)


@pytest.fixture
def caller(control_plane: ControlPlane, admin: ApiClient, plain_api_server: ApiServer) -> Caller:
    caller = Cast(control_plane, admin).user(groups=("dev",))
    Rights(plain_api_server).grant(
        caller,
        may("get", "list", "watch"),
        may_be("user-info", "users", "bob"),
        may_do("user-info", "list"),
        may_impersonate("groups"),
    )
    return caller


def lines_of(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def audit_id(response: APIResponse) -> str:
    return response.header("Audit-Id") or ""


def test_every_request_appears_once_with_its_three_identities(run: Run, caller: Caller) -> None:
    client, nobody = run.understudy.client(caller.credential), run.understudy.client(None)
    intruder = run.understudy.client(BearerToken("nonsense"))
    targets = ("/api/v1/pods", "/version", "/nowhere", "/api/v1/namespaces/a/pods/b/log?follow=1")
    answers = [client.request("GET", target) for target in targets]
    answers += [client.request("GET", target, headers=as_user("bob")) for target in targets]
    answers += [client.request("GET", target, headers=as_user("carol")) for target in targets]
    answers += [intruder.request("GET", "/api"), nobody.request("GET", "/api")]
    answers.append(client.request("GET", "/api/v1/pods?watch=1&timeoutSeconds=1"))
    answers.append(
        client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=REVIEW)
    )
    run.settle(client)

    result = run.join("-o", "json")

    assert result.returncode == 0, result.stderr
    lines = {line["auditID"]: line for line in lines_of(result)}
    times = Counter(line["auditID"] for line in lines_of(result))
    assert {times[audit_id(response)] for response in answers} == {1}
    assert [lines[audit_id(response)]["code"] for response in answers] == [
        response.status for response in answers
    ]
    listed = lines[audit_id(answers[len(targets)])]
    assert (listed["caller"], listed["constraint"], listed["target"], listed["proxy"]) == (
        caller.name,
        "impersonate:user-info",
        "bob",
        forwarder_name([ALL_EXTRAS]),
    )
    assert (listed["clusterTarget"], listed["verb"], listed["object"]) == ("bob", "list", "pods")
    itself = lines[audit_id(answers[0])]
    assert (itself["caller"], itself["constraint"], itself["target"], itself["clusterTarget"]) == (
        caller.name,
        None,
        caller.name,
        caller.name,
    )
    denied = lines[audit_id(answers[2 * len(targets)])]
    assert (denied["code"], denied["clusterCode"]) == (403, None)
    assert [line for line in lines.values() if line["flags"]] == []
    assert f"the proxy's own user name is {forwarder_name([ALL_EXTRAS])}" in result.stderr


def test_an_id_that_a_client_uses_twice_is_kept_twice_and_flagged(run: Run, caller: Caller) -> None:
    client, chosen = run.understudy.client(caller.credential), fresh_name("chosen")
    headers = [("Audit-ID", chosen)]

    answers = [
        client.request("GET", "/api/v1/pods", headers=headers),
        client.request("GET", "/api/v1/pods", headers=[*headers, *as_user("bob")]),
    ]
    run.settle(client)
    result = run.join("-o", "json")

    assert [audit_id(response) for response in answers] == [chosen, chosen]
    both = [line for line in lines_of(result) if line["auditID"] == chosen]
    assert [(line["target"], line["clusterTarget"]) for line in both] == [
        (caller.name, caller.name),
        ("bob", "bob"),
    ]
    assert {tuple(line["flags"]) for line in both} == {("same-id",)}
    assert result.returncode == 0


def test_whoever_uses_our_credential_alone_is_found(
    run: Run, caller: Caller, control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    own = control_plane.clients.issue_client(forwarder_name([ALL_EXTRAS]))
    thief = ApiClient(plain_api_server.url, ca_pem=plain_api_server.ca_pem, credential=own)

    stolen = thief.request("GET", "/api/v1/secrets")
    borrowed = thief.request("GET", "/version", headers=as_user("bob"))
    run.settle(run.understudy.client(caller.credential))
    metrics = run.directory / "understudy.prom"
    result = run.join("-o", "json")
    table = run.join("--proxy-user", forwarder_name([ALL_EXTRAS]), "--metrics", str(metrics))

    flags = {line["auditID"]: line["flags"] for line in lines_of(result) if line["flags"]}
    assert flags == {
        audit_id(stolen): ["NOT-IMPERSONATED"],
        audit_id(borrowed): ["not-in-ours"],
    }
    assert (result.returncode, table.returncode) == (3, 3)
    assert "WARNING" in table.stderr
    for flag, count in (("NOT-IMPERSONATED", 1), ("not-in-ours", 1), ("TARGET-DIFFERS", 0)):
        series = f'understudy_audit_join_flagged_events{{flag="{flag}"}} {count}.0'
        assert series in metrics.read_text().splitlines()


def test_a_request_whose_uri_was_cut_is_joined_by_its_digest(run: Run, caller: Caller) -> None:
    client = run.understudy.client(caller.credential)
    targets = [f"/api/v1/pods?x={'y' * 20_000}{odd}" for odd in ("", "z", "<&>", "%C3%A9")]
    targets.append(f"/version/{'|' * 20_000}")  # Go escapes it anew
    answers = [client.request("GET", target) for target in targets]
    answers += [client.request("GET", target, headers=as_user("bob")) for target in targets[:4]]
    run.settle(client)

    result = run.join("-o", "json")

    assert result.returncode == 0, result.stderr
    lines = {line["auditID"]: line for line in lines_of(result)}
    for response in answers:
        line = lines[audit_id(response)]
        assert line["requestURI"].endswith("...TRUNCATED")
        assert line["clusterTarget"] == line["target"]
        assert line["flags"] == []


@pytest.fixture
def run_without_extras(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> Iterator[Run]:
    """A proxy whose forwarder may not impersonate extras."""
    audit_log = plain_api_server.audit_log
    offset = audit_log.stat().st_size
    with running_understudy(control_plane, plain_api_server, tmp_path, components=()) as understudy:
        yield Run(understudy, audit_log, offset, tmp_path)


@pytest.mark.parametrize("options", [(), ("--proxy-user", forwarder_name())], ids=["found", "told"])
def test_missing_permission_of_the_proxy_is_not_taken_for_a_stolen_credential(
    run_without_extras: Run,
    caller: Caller,
    plain_api_server: ApiServer,
    options: tuple[str, ...],
) -> None:
    run = run_without_extras
    rights = Rights(plain_api_server)
    rights.grant(caller, may_impersonate("users"), may_impersonate("userextras/team"))
    client = run.understudy.client(caller.credential)

    lacking = client.request(
        "GET", "/api/v1/pods", headers=as_user("bob", extra=[("Team", "blue")])
    )
    run.settle(client)
    event = complete_event(run.understudy.audit_log, audit_id(lacking))
    result = run.join("-o", "json", *options)

    assert lacking.status == 500
    assert (event["stage"], event["responseStatus"]["code"]) == ("ResponseComplete", 500)
    assert event["annotations"]["kube-understudy.io/upstream-code"] == "403"
    flags = {line["auditID"]: line["flags"] for line in lines_of(result) if line["flags"]}
    assert flags == {audit_id(lacking): ["PROXY-PERMISSION-MISSING"]}
    assert result.returncode == 0, result.stderr
    assert "1 requests failed because the proxy lacks a permission" in result.stderr
