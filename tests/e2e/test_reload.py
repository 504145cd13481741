"""The config file is changed under load, before a real API server: requests do not notice."""

import hashlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import grant
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.audit_events import events_of
from tests.support.control_plane import fresh_name
from tests.support.impersonation import poll

pytestmark = pytest.mark.timeout(240)

TARGET = "someone-in-particular"
AS_TARGET = [("Impersonate-User", TARGET)]


class Stage:
    """A proxy whose config file is polled every tenth of a second, as a ConfigMap is mounted."""

    def __init__(self, understudy: Understudy, caller: ApiClient) -> None:
        self.understudy = understudy
        self.caller = caller
        self._file = understudy.process.config_file
        self.document: dict[str, Any] = yaml.safe_load(self._file.read_text())
        self._versions = 0

    def write(self, text: str) -> str:
        """Turn the link to a new version of the file, as the kubelet does; return its hash."""
        self._versions += 1
        version = self._file.parent / f"..{self._versions}"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        link = self._file.parent / "..data_tmp"
        link.symlink_to(version)
        link.rename(self._file.parent / "..data")
        if not self._file.is_symlink():
            turned = self._file.parent / "config_tmp"
            turned.symlink_to("..data/config.yaml")
            turned.rename(self._file)
        return hashlib.sha256(text.encode()).hexdigest()

    def change(self, **sections: dict[str, object]) -> str:
        """Write a document with these keys as well, and return its hash."""
        for name, section in sections.items():
            self.document[name] = self.document.get(name, {}) | section
        return self.write(yaml.safe_dump(self.document))

    def take(self, *, by_signal: bool = False, **sections: dict[str, object]) -> None:
        """Change the file, and wait until it is in force."""
        digest = self.change(**sections)
        if by_signal:
            self.hang_up()
        poll(lambda: self.has(f'understudy_config_info{{hash="{digest}"}} 1.0'), "never in force")

    def hang_up(self) -> None:
        os.kill(self.understudy.process.process.pid, signal.SIGHUP)

    def has(self, line: str) -> bool:
        return line in self.understudy.metrics()

    def count(self, outcome: str) -> float:
        series = f'understudy_config_reloads_total{{outcome="{outcome}"}} '
        page = self.understudy.metrics()
        (line,) = [line for line in page.splitlines() if line.startswith(series)]
        return float(line.removeprefix(series))


@pytest.fixture
def stage(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> Iterator[Stage]:
    name = fresh_name("caller")
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    reading = [{"nonResourceURLs": ["*"], "verbs": ["*"]}]
    for user in (name, TARGET):
        grant(
            plain_api_server.admin,
            f"all-of-{user}-{fresh_name('role')}",
            rules=everything + reading,
            to={"kind": "User", "name": user},
        )
    with running_understudy(control_plane, plain_api_server, tmp_path) as understudy:
        stage = Stage(understudy, understudy.client(control_plane.clients.issue_client(name)))
        stage.document["configRefresh"] = "100ms"
        stage.take(by_signal=True)
        yield stage


@contextmanager
def load(stage: Stage, ask: Callable[[ApiClient], int], threads: int = 3) -> Iterator[Counter[int]]:
    """Ask all the time; the answers' codes are complete when the context ends."""
    codes: Counter[int] = Counter()
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            codes[ask(stage.caller)] += 1

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield codes
    finally:
        is_over.set()
        for thread in running:
            thread.join()


def test_requests_go_on_while_everything_is_replaced_many_times(
    stage: Stage, tmp_path: Path, plain_api_server: ApiServer
) -> None:
    def ask(caller: ApiClient) -> int:
        return caller.request("GET", "/api/v1/namespaces/default", headers=AS_TARGET).status

    server = plain_api_server.url
    with load(stage, ask) as codes:
        for turn in range(15):
            stage.take(
                by_signal=turn % 3 == 0,
                upstream={
                    "endpoints": [server] * (1 + turn % 2),
                    "responseTimeout": f"{60 + turn}s",
                },
                authentication={"tokenReview": {"inFlight": 10 + turn}},
                impersonation={"successTTL": f"{1 + turn}s"},
                serving={"limits": {"readsInFlight": 100 + turn, "idleTimeout": f"{30 + turn}s"}},
                audit={"log": {"path": str(tmp_path / f"audit-{turn % 2}.log"), "maxSize": turn}},
                log={"format": ("json", "text")[turn % 2]},
            )

    assert set(codes) == {200}, codes
    assert codes[200] > 50
    assert stage.count("used") >= 16.0  # one more where a look and a signal met
    assert (stage.count("refused"), stage.count("restart")) == (0.0, 0.0)
    assert "Traceback" not in stage.understudy.log()
    assert "audit events lost" not in stage.understudy.log()


def test_a_bad_file_changes_nothing_and_is_told(stage: Stage) -> None:
    def ask() -> int:
        return stage.caller.request("GET", "/version", headers=AS_TARGET).status

    before = stage.document
    good = yaml.safe_dump(before)
    in_force = f'understudy_config_info{{hash="{hashlib.sha256(good.encode()).hexdigest()}"}} 1.0'
    bad = {
        "unknown and wrong": {**before, "impersonation": {"legacy": "no", "colour": 7}},
        "a file that is not there": {
            **before,
            "impersonation": {"constrained": False, "legacy": "deny"},
            "audit": {"policyFile": "/nowhere/policy.yaml"},
        },
        "a server that is not there": {
            **before,
            "impersonation": {"constrained": False, "legacy": "deny"},
            "upstream": {**before["upstream"], "endpoints": ["https://127.0.0.1:1"]},
        },
        "an address": {
            **before,
            "impersonation": {"constrained": False, "legacy": "deny"},
            "serving": {**before["serving"], "address": "127.0.0.1:1"},
        },
    }
    for name, document in bad.items():
        outcome = "restart" if name == "an address" else "refused"
        count = stage.count(outcome)
        stage.write(yaml.safe_dump(document))
        poll(lambda count=count, outcome=outcome: stage.count(outcome) > count, name)  # type: ignore[misc]  # bound now
        assert (ask(), stage.has(in_force)) == (200, True), name
    stage.write("impersonation: [")
    poll(lambda: "is not YAML" in stage.understudy.log(), "broken YAML is not told")
    stage.write(good)

    log = stage.understudy.log()
    assert ask() == 200
    for problem in (
        "impersonation.colour: unknown key",
        "impersonation.legacy",
        "audit.policyFile: /nowhere/policy.yaml: cannot be read",
        "authentication to the API server at 127.0.0.1:1 failed",
        "serving.address: was changed, which needs a restart",
    ):
        assert problem in log
    assert stage.count("used") == 1.0


def test_a_rule_that_is_changed_decides_the_next_request(stage: Stage) -> None:
    def ask() -> int:
        return stage.caller.request("GET", "/version", headers=AS_TARGET).status

    codes = []
    for by_signal in (False, True):
        # All of it is remembered by now, for an hour if nobody forgets it.
        stage.take(impersonation={"constrained": False, "legacy": "allow", "legacyTTL": "1h"})
        codes += [ask(), ask()]
        stage.take(by_signal=by_signal, impersonation={"legacy": "deny"})
        codes += [ask()]
    assert codes == [200, 200, 403] * 2


def test_the_audit_trail_moves_without_a_gap(stage: Stage, tmp_path: Path) -> None:
    def ask(path: str) -> str:
        audit_id = fresh_name("moved")
        stage.caller.request("GET", path, headers=[("Audit-ID", audit_id)])
        return audit_id

    moved = tmp_path / "moved.log"
    first = ask("/version")
    stage.take(audit={"log": {"path": str(moved)}})
    second = ask("/version")

    assert events_of(stage.understudy.audit_log, first, count=1)
    assert events_of(moved, second, count=1)
    assert second not in stage.understudy.audit_log.read_text()


def test_the_log_level_changes(stage: Stage) -> None:
    stage.take(log={"level": "error"})
    before = stage.understudy.log()
    stage.caller.request("GET", "/version")

    assert stage.understudy.log() == before
