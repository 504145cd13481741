"""`understudy report` as its users meet it."""

import gzip
import json
import logging
import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.impersonation_events import event
from tests.support.sizes import IS_SOAKING, SOAK_SECONDS, sized, soak
from tests.support.synthetic_audit import synthetic_lines

# Each starts Python anew, on a machine that may be busy.
pytestmark = pytest.mark.timeout(SOAK_SECONDS if IS_SOAKING else 90)

log = logging.getLogger(__name__)

COMMAND = [sys.executable, "-m", "proxy", "report"]
MASTERS = event("root", groups=("system:masters", "system:authenticated"))
# A million events in a minute and 200 MB; fewer in as much less time, but Python has to start.
EVENTS = sized(50_000, full=1_000_000)
MOST_SECONDS = 60 * EVENTS / 1_000_000 + 3
MOST_MEGABYTES = 200


def report(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, timeout=80, check=False
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    path.write_bytes(lines(event(), event(constraint="impersonate:user-info"), MASTERS))
    return path


def test_the_table_tells_who_acted_as_whom_and_what_breaks(audit_log: Path) -> None:
    done = report(audit_log)

    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "bob: 2 requests by legacy impersonation, 1 by constrained modes" in text
    assert "IDENTITY LEGACY CONSTRAINED alice 1 1" in text
    assert "list pods (cluster) 1 1 0" in text
    assert "broken root; groups system:masters: 1 requests impersonating the system:masters" in text
    assert "3 events read, 2026-11-16T04:00:00.000000Z to" in text
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_everything_as_one_document(audit_log: Path, output: str) -> None:
    done = report("-o", output, audit_log)

    document = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    (bob,) = document["impersonators"]
    assert document["kind"] == "ImpersonationReport"
    assert document["read"] == {
        "events": 3, "unreadable": 0, "truncated": 0, "requestsBeyondTheBound": 0,
    }  # fmt: skip
    assert bob["requests"] == {"legacy": 2, "constrained": 1, "legacyForbidden": 0}
    (user_info, none) = bob["modes"]
    assert user_info["identities"] == [
        {"user": "alice", "legacy": 1, "constrained": 1, "legacyForbidden": 0}
    ]
    assert none["identities"][0]["groups"] == ["system:masters"]
    assert [one["kind"] for one in bob["withoutLegacy"]["grants"]] == [
        "ClusterRole",
        "ClusterRoleBinding",
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_nobody_is_an_empty_list(tmp_path: Path, output: str) -> None:
    (tmp_path / "audit.log").write_bytes(b'{"kind":"Event","stage":"ResponseComplete"}\n')

    done = report("-o", output, tmp_path / "audit.log")

    document = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert document["impersonators"] == []


def test_grants_alone_can_be_applied_and_what_they_do_not_mend_is_told_apart(
    audit_log: Path,
) -> None:
    done = report("--grant-only", audit_log)
    as_json = report("--grant-only", "-o", "json", audit_log)

    manifests = list(yaml.safe_load_all(done.stdout))
    assert [one["kind"] for one in manifests] == ["ClusterRole", "ClusterRoleBinding"]
    assert json.loads(as_json.stdout)["items"] == manifests
    assert "no grant for bob: root; groups system:masters" in done.stderr


def test_logs_may_be_several_compressed_and_on_standard_input(
    audit_log: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "old.log.gz"
    packed.write_bytes(gzip.compress(lines(event(), event())))

    done = report("-o", "json", audit_log, packed, "-", stdin=lines(event(caller="carol")))

    document = json.loads(done.stdout)
    assert [(one["name"], one["requests"]["legacy"]) for one in document["impersonators"]] == [
        ("bob", 4),
        ("carol", 1),
    ]


def test_lines_that_are_no_events_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"hello\n\n" + lines(event()) + b'{"impersonatedUser": \n[1]\n')

    done = report(path)

    assert done.returncode == 0
    assert "3 lines are not audit events" in done.stdout


def test_a_log_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = report(tmp_path / "none.log")

    assert done.returncode == 1
    assert done.stderr.startswith("understudy: cannot read")
    assert len(done.stderr.splitlines()) == 1


def test_impersonators_are_chosen_by_name(audit_log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(lines(event(caller="carol")))

    only = report("-o", "json", "--impersonator", "carol", audit_log, other)
    without = report("-o", "json", "--except", "carol", audit_log, other)

    assert [one["name"] for one in json.loads(only.stdout)["impersonators"]] == ["carol"]
    assert [one["name"] for one in json.loads(without.stdout)["impersonators"]] == ["bob"]


def test_names_cannot_paint_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    odd = "eve\x1b[31m"
    path.write_bytes(lines(event(odd, caller=odd), event(odd, caller=odd, verb=odd)))

    done = report(path)
    grants = report("--grant-only", path)

    assert "\x1b" not in done.stdout
    assert "\x1b" not in grants.stderr


def test_a_bar_is_drawn_on_a_terminal_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with path.open("wb") as file:
        file.writelines(synthetic_lines(60_000))
    controller, terminal = pty.openpty()
    try:
        with subprocess.Popen([*COMMAND, path], stdout=subprocess.PIPE, stderr=terminal) as running:
            assert running.stdout is not None
            told = running.stdout.read()
        drawn = os.read(controller, 1 << 16).decode()
    finally:
        os.close(controller)
        os.close(terminal)

    assert re.search(r"\[#*\.*\] +\d+%  \d+ events, \d+ MB, \d+/s, \d+ s left", drawn)
    assert drawn.endswith("\r\x1b[K")
    assert b"events read" in told


@soak
def test_a_week_of_audit_takes_a_minute_and_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with path.open("wb") as file:
        file.writelines(synthetic_lines(EVENTS))

    used = measured("-o", "json", path, into=tmp_path / "report.json")

    log.info("%d events: %s", EVENTS, used)
    assert used.seconds < MOST_SECONDS
    assert used.megabytes < MOST_MEGABYTES
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["read"]["events"] == EVENTS
    assert all("more than is kept" not in str(one) for one in document["impersonators"])


def test_memory_does_not_grow_with_what_a_log_names(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with path.open("wb") as file:
        for number in range(EVENTS):
            file.write(lines(event(f"user-{number}", caller=f"caller-{number % 7}")))

    used = measured("--most", "5000", "-o", "json", path, into=tmp_path / "report.json")

    assert used.megabytes < 100
    assert "requests exceed the number of entries" in (tmp_path / "report.json").read_text()


@dataclass(frozen=True, slots=True)
class Used:
    """What a run took: its own time, whatever else runs here, and the most memory it had."""

    seconds: float
    wall_seconds: float
    megabytes: float


def measured(*arguments: object, into: Path) -> Used:
    command = [*COMMAND, *map(str, arguments)]
    started = time.monotonic()
    with into.open("wb") as out, subprocess.Popen(command, stdout=out) as running:
        # What the system tells at the end includes what we had when we started it.
        peak = 0
        while not os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            status = Path(f"/proc/{running.pid}/status").read_text()
            found = re.search(r"VmHWM:\s+(\d+) kB", status)
            peak = max(peak, int(found[1]) if found else 0)
            time.sleep(0.02)
        _, status_word, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status_word)
    assert running.returncode == 0
    return Used(used.ru_utime + used.ru_stime, time.monotonic() - started, peak / 1024)


def test_report_without_a_cluster_does_not_load_the_client_libraries() -> None:
    script = "import sys, proxy.cli.report; sys.exit('kubernetes_asyncio' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
