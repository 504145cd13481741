"""`understudy audit join` as its users meet it."""

import gzip
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.analysis.audit_join.joiner import JoinFlag
from tests.analysis.audit_join.test_joiner import PROXY, Logs

pytestmark = pytest.mark.timeout(60)  # each starts Python anew, on a machine that may be busy


def join(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "audit", "join", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=50,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def lines(logs: Logs, *, is_ours: bool) -> bytes:
    ordered = sorted(logs.entries, key=lambda entry: str(entry[0]["stageTimestamp"]))
    events = [event for event, side in ordered if side == is_ours]
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def write(logs: Logs, directory: Path) -> tuple[Path, Path]:
    ours, cluster = directory / "ours.log", directory / "cluster.log"
    ours.write_bytes(lines(logs, is_ours=True))
    cluster.write_bytes(lines(logs, is_ours=False))
    return ours, cluster


def impersonation() -> Logs:
    logs = Logs()
    logs.ours("bob", "alice", constraint="impersonate:user-info")
    logs.cluster("alice")
    return logs


def test_a_request_is_a_line_of_the_table(tmp_path: Path) -> None:
    result = join(*write(impersonation(), tmp_path))

    assert result.returncode == 0, result.stderr
    header, line = result.stdout.splitlines()
    assert header.split() == [
        *("TIME", "CALLER", "CONSTRAINT", "TARGET", "ACTION", "OUTCOME", "AUDIT-ID", "FLAGS")
    ]
    assert line.split() == [
        "2026-11-16T04:00:00.000000Z",
        *("bob", "impersonate:user-info", "alice", "list", "pods", "200", "id-1"),
    ]
    assert "1 requests, 1 in both logs, 0 flagged" in result.stderr
    assert f"the proxy's own user name is {PROXY}" in result.stderr


def test_and_an_object_of_json(tmp_path: Path) -> None:
    result = join("-o", "json", *write(impersonation(), tmp_path))

    assert json.loads(result.stdout) == {
        "auditID": "id-1",
        "requestReceivedTimestamp": "2026-11-16T04:00:00.000000Z",
        "caller": "bob",
        "constraint": "impersonate:user-info",
        "target": "alice",
        "proxy": PROXY,
        "verb": "list",
        "object": "pods",
        "requestURI": "/api/v1/pods",
        "code": 200,
        "clusterCode": 200,
        "clusterTarget": "alice",
        "flags": [],
    }


def test_rotated_compressed_and_piped_logs(tmp_path: Path) -> None:
    logs = Logs()
    for number in range(4):
        logs.ours("bob", id=f"id-{number}", at=number)
        logs.cluster("bob", id=f"id-{number}", at=number)
    ours = lines(logs, is_ours=True).splitlines(keepends=True)
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(b"".join(ours[:4])))
    (tmp_path / "new.log").write_bytes(b"".join(ours[4:]))

    result = join(
        *("--proxy-log", tmp_path / "old.log.gz", tmp_path / "new.log", "-", "-o", "json"),
        stdin=gzip.compress(lines(logs, is_ours=False)),
    )

    assert result.returncode == 0, result.stderr
    found = [json.loads(line)["auditID"] for line in result.stdout.splitlines()]
    assert found == [f"id-{number}" for number in range(4)]
    assert "4 requests, 4 in both logs" in result.stderr


def flags(result: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line)["flags"] for line in result.stdout.splitlines()]


def test_a_request_in_our_own_name_is_loud(tmp_path: Path) -> None:
    logs = impersonation()
    logs.cluster(None, id="stolen", resource="secrets", at=1)

    result = join("-o", "json", *write(logs, tmp_path))
    table = join(*write(logs, tmp_path))

    assert flags(result) == [[], ["NOT-IMPERSONATED"]]
    assert (result.returncode, table.returncode) == (3, 3)
    assert "WARNING: 1 requests reached the API server" in result.stderr
    assert table.stdout.splitlines()[-1].endswith("NOT-IMPERSONATED")


def test_what_is_only_odd_is_flagged_and_no_failure(tmp_path: Path) -> None:
    logs = impersonation()
    logs.ours("carol", at=1)
    logs.cluster("carol", at=1)

    result = join("-o", "json", *write(logs, tmp_path))

    assert flags(result) == [["same-id"], ["same-id"]]
    assert result.returncode == 0


def test_our_own_name_can_be_told(tmp_path: Path) -> None:
    logs = Logs()
    logs.cluster(None, id="stolen", resource="secrets")

    unknown = join(*write(logs, tmp_path))
    known = join("--proxy-user", PROXY, *write(logs, tmp_path))

    assert unknown.returncode == 1
    assert "no conclusion is possible" in unknown.stderr
    assert known.returncode == 3


def test_lines_that_are_no_events_are_counted_and_a_cut_one_too(tmp_path: Path) -> None:
    ours, cluster = write(impersonation(), tmp_path)
    ours.write_bytes(b"nonsense\n[]\n" + ours.read_bytes() + b'{"kind":"Ev')

    result = join("-o", "json", ours, cluster)

    assert flags(result) == [[]]
    assert f"{ours}: 3 lines are not audit events" in result.stderr


def test_names_can_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    logs = Logs()
    logs.ours("bob\x1b[2J\nroot")
    logs.cluster("bob\x1b[2J\nroot")

    result = join(*write(logs, tmp_path))

    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_a_log_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    ours, _ = write(impersonation(), tmp_path)
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(ours.read_bytes())[:-20])

    for file in (tmp_path / "missing.log", tmp_path, broken):
        result = join(ours, file)

        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"understudy: cannot read {file}: ")


TOLD = ("--proxy-user", PROXY, "-o", "json")
FLAGGED = "understudy_audit_join_flagged_events"
LAST_RUN = "understudy_audit_join_last_run_timestamp_seconds"


def metrics(file: Path) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("flag", "")): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }


def test_what_was_found_is_told_to_prometheus_with_every_flag(tmp_path: Path) -> None:
    logs, file = impersonation(), tmp_path / "understudy.prom"
    logs.cluster(None, id="stolen", resource="secrets", at=1)
    logs.cluster("carol", id="borrowed", at=2)
    logs.cluster("dave", id="lent", at=3)
    begun = datetime.now(UTC).timestamp()

    result = join(*TOLD, "--metrics", file, *write(logs, tmp_path))

    assert result.returncode == 3
    found = metrics(file)
    assert begun - 1 <= found.pop((LAST_RUN, "")) <= datetime.now(UTC).timestamp() + 1
    assert found == {(FLAGGED, flag.value): 0 for flag in JoinFlag} | {
        (FLAGGED, "NOT-IMPERSONATED"): 1,
        (FLAGGED, "not-in-ours"): 2,
        ("understudy_audit_join_requests", ""): 4,
    }


def test_metrics_replace_those_before_as_a_whole_for_every_reader(tmp_path: Path) -> None:
    directory, logs = tmp_path / "textfiles", write(impersonation(), tmp_path)
    directory.mkdir()
    file = directory / "understudy.prom"
    file.write_text("old")
    file.chmod(0o600)

    umask = os.umask(0o077)
    try:
        with file.open() as reader:
            result = join(*TOLD, "--metrics", file, *logs)
            seen = reader.read()
    finally:
        os.umask(umask)

    assert result.returncode == 0, result.stderr
    assert seen == "old"
    assert metrics(file)[FLAGGED, "NOT-IMPERSONATED"] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(directory.iterdir()) == [file]


def test_metrics_that_cannot_be_written_are_one_line_and_hide_nothing(tmp_path: Path) -> None:
    quiet, loud = impersonation(), impersonation()
    loud.cluster(None, id="stolen", resource="secrets", at=1)
    link = tmp_path / "link.prom"
    link.symlink_to("/dev/null")

    for file in (tmp_path / "missing" / "understudy.prom", tmp_path, link):
        results = [join(*TOLD, "--metrics", file, *write(logs, tmp_path)) for logs in (quiet, loud)]

        assert [result.returncode for result in results] == [1, 3]
        for result in results:
            assert result.stderr.splitlines()[-1].startswith(f"understudy: cannot write {file}: ")
    assert link.is_symlink()


def test_a_join_that_did_not_come_to_its_end_leaves_the_metrics_alone(tmp_path: Path) -> None:
    ours, _ = write(impersonation(), tmp_path)
    file = tmp_path / "understudy.prom"

    result = join(*TOLD, "--metrics", file, ours, tmp_path / "missing.log")

    assert result.returncode == 1
    assert not file.exists()


def test_metrics_need_to_be_told_our_own_name(tmp_path: Path) -> None:
    file = tmp_path / "understudy.prom"

    result = join("--metrics", file, *write(impersonation(), tmp_path))

    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "understudy: --metrics needs --proxy-user"
    assert not file.exists()


def test_a_command_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "audit"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "See 'understudy audit --help'." in done.stderr


@pytest.mark.parametrize(
    ("ours", "cluster", "reason"),
    [
        (b"", None, "the proxy's logs contain no audit event"),
        (b"nonsense\n", None, "the proxy's logs contain no audit event"),
        (None, b"", "the cluster's logs contain no audit event"),
        (None, b"nonsense\n", "the cluster's logs contain no audit event"),
        (b"", b"", "the proxy's logs contain no audit event"),
    ],
)
def test_log_without_events_allows_no_conclusion(
    tmp_path: Path, ours: bytes | None, cluster: bytes | None, reason: str
) -> None:
    files, metrics_file = write(impersonation(), tmp_path), tmp_path / "understudy.prom"
    for file, content in zip(files, (ours, cluster), strict=True):
        if content is not None:
            file.write_bytes(content)

    result = join(*TOLD, "--metrics", metrics_file, *files)

    assert result.returncode == 1
    assert f"understudy: WARNING: no conclusion is possible: {reason}" in result.stderr
    assert not metrics_file.exists()


def test_unknown_proxy_user_allows_no_conclusion_and_leaves_the_metrics(tmp_path: Path) -> None:
    metrics_file = tmp_path / "understudy.prom"
    metrics_file.write_text("old")
    logs = impersonation()
    logs.cluster(None, id="stolen", resource="secrets", at=1)

    result = join("--proxy-user", "mistyped", "--metrics", metrics_file, *write(logs, tmp_path))

    assert result.returncode == 1
    assert "no conclusion is possible: mistyped made no request" in result.stderr
    assert f"{metrics_file} was not updated" in result.stderr
    assert metrics_file.read_text() == "old"


def test_logs_of_different_periods_allow_no_conclusion(tmp_path: Path) -> None:
    logs = Logs()
    logs.ours("bob", id="today")
    logs.cluster("bob", id="yesterday", at=-90_000)

    result = join(*TOLD, *write(logs, tmp_path))

    assert result.returncode == 1
    assert "1 requests succeeded through the proxy, and none of them is in the" in result.stderr


def test_misuse_is_reported_although_the_proxy_log_is_empty(tmp_path: Path) -> None:
    logs, metrics_file = Logs(), tmp_path / "understudy.prom"
    logs.cluster(None, id="stolen", resource="secrets")

    result = join(*TOLD, "--metrics", metrics_file, *write(logs, tmp_path))

    assert result.returncode == 3
    assert metrics(metrics_file)[FLAGGED, "NOT-IMPERSONATED"] == 1


def test_denials_alone_are_conclusive_if_the_proxy_user_is_in_the_cluster_log(
    tmp_path: Path,
) -> None:
    logs = Logs()
    logs.ours("bob", "alice", code=403)
    logs.cluster(None, verb="create", resource="tokenreviews", id="review")

    result = join(*TOLD, *write(logs, tmp_path))

    assert result.returncode == 0
    assert "no conclusion" not in result.stderr


def test_missing_log_prints_no_table_header(tmp_path: Path) -> None:
    ours, _ = write(impersonation(), tmp_path)

    assert join(ours, tmp_path / "missing.log").stdout == ""
