"""explain and can-i before any cluster is asked: options, files, and what cannot be reached."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.audit_log_reader import AuditLogError, find_event, read_event
from proxy.sandbox.identities import CertificateAuthority, write_kubeconfig
from tests.explain_parity.command import run

EVENT: dict[str, Any] = {
    "kind": "Event",
    "auditID": "id-1",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/pods",
    "verb": "list",
    "user": {"username": "bob"},
}


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A kubeconfig of a cluster that is not there."""
    authority = CertificateAuthority("test")
    return write_kubeconfig(
        tmp_path / "nowhere.yaml",
        url="https://127.0.0.1:1",
        ca_pem=authority.certificate_pem,
        credential=authority.issue_client("admin"),
    )


@pytest.mark.parametrize("command", ["explain", "can-i"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "--user is required"),
        ("--user= list pods", "--user must not be empty"),
        ("--user=bob", "VERB RESOURCE, or --raw PATH"),
        ("--user=bob list", "VERB RESOURCE, or --raw PATH"),
        ("--user=bob --raw=/version list", "not with a verb"),
        ("--user=bob --raw=/version list pods", "VERB RESOURCE, or --raw PATH"),
        ("--user=bob -n=a -A list pods", "either --namespace or --all-namespaces"),
        ("--user=bob --extra=k list pods", "must be KEY=VALUE"),
        ("--user=bob lst pods", "no request has the verb lst; did you mean list?"),
        ("--user=bob impress pods", "no request has the verb impress: use get, list"),
        ("--user=bob -o=xml list pods", "invalid choice"),
    ],
)
def test_options_that_say_no_request_are_usage_errors(
    command: str, options: str, words: str
) -> None:
    said = run(command, *options.split())

    assert said.code == 2
    assert words in said.errors
    assert said.output == ""


def test_kubectl_command_with_another_command_is_a_usage_error() -> None:
    said = run("explain", "--user=bob", "--", "kubectl", "drain", "n1")

    assert said.code == 2
    assert "`kubectl drain` is not known here" in said.errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--audit-id=x", "--audit-id and --audit-log must be used together"),
        ("--audit-log=x", "--audit-id and --audit-log must be used together"),
        ("--user=bob --audit-event={event}", "an audit event cannot be combined"),
    ],
)
def test_an_event_goes_with_nothing_else(tmp_path: Path, options: str, words: str) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps(EVENT))

    said = run("explain", *options.format(event=event).split())

    assert said.code == 2
    assert words in said.errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("can-i --user=bob --raw=/version", "cannot reach https://127.0.0.1:1"),
        ("can-i --user=bob list pods", "cannot reach https://127.0.0.1:1"),
        ("explain --user=bob --as=al --raw=nopath", "rejected before any access check"),
        ("explain --user=bob --as-group=g list pods", "need --as"),
        ("explain --user=bob list pods --context=other", "context other is not in"),
        ("explain --user=bob list pods --config=none.yaml", "none.yaml"),
        ("explain --audit-event=none.json", "cannot read none.json"),
        ("explain --audit-id=x --audit-log=none.log", "cannot read none.log"),
    ],
)
def test_what_cannot_be_done_is_one_line(nowhere: Path, arguments: str, words: str) -> None:
    said = run(*arguments.split(), f"--kubeconfig={nowhere}")

    assert said.code == 1
    assert words in said.errors
    assert said.errors.count("\n") == 1
    assert said.output == ""


def test_a_kubeconfig_that_is_none_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {}}]\nusers: [{name: u, user: {}}]\n"
    )

    said = run("can-i", "--user=bob", "--raw=/version", f"--kubeconfig={file}")

    assert said.code == 1
    assert "cannot use the kubeconfig" in said.errors
    assert said.errors.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": {}}, "the caller was not authenticated"),
        ({"auditID": ""}, "not an audit event"),
        ({"verb": "impress"}, "has the verb impress"),
    ],
)
def test_an_event_that_cannot_be_explained_says_why(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(EVENT | change))

    said = run("explain", f"--audit-event={file}")

    assert said.code == 1
    assert words in said.errors


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(EVENT),
        json.dumps(EVENT, indent=2),
        json.dumps({"kind": "EventList", "items": [{}, EVENT]}),
        f"{json.dumps(EVENT | {'auditID': 'other'})}\n{json.dumps(EVENT)}\n",
    ],
    ids=["line", "pretty", "list", "log"],
)
def test_an_event_comes_in_every_form(tmp_path: Path, text: str) -> None:
    file = tmp_path / "event.json"
    file.write_text(text)

    assert read_event(file) == EVENT


@pytest.mark.parametrize("text", ["", "x", "[]", '{"kind": "EventList"}'])
def test_a_file_without_an_event_says_so(tmp_path: Path, text: str) -> None:
    file = tmp_path / "event.json"
    file.write_text(text)

    with pytest.raises(AuditLogError, match="contains no audit event"):
        read_event(file)


def test_the_latest_stage_of_a_request_is_found_among_all_others(tmp_path: Path) -> None:
    events = [
        EVENT | {"stage": "RequestReceived"},
        EVENT | {"auditID": "id-2", "requestURI": "/id-1"},
        EVENT,
        EVENT | {"stage": "ResponseStarted"},
    ]
    logs = [tmp_path / "audit.log", tmp_path / "audit-old.log"]
    logs[0].write_text("".join(json.dumps(event) + "\n" for event in events) + '{"auditID":"id-1"')
    logs[1].write_text("")

    assert find_event("id-1", logs) == EVENT
    with pytest.raises(AuditLogError, match="has the audit ID id-3"):
        find_event("id-3", logs)


def test_a_long_log_is_read_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    line = json.dumps(EVENT | {"auditID": "other", "userAgent": "x" * 1000}) + "\n"
    log.write_text(line * 20_000 + json.dumps(EVENT) + "\n")

    tracemalloc.start()
    try:
        found = find_event("id-1", [log])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == EVENT
    assert peak_bytes < log.stat().st_size / 20
