"""The config file is followed: by a look from time to time, and at once when we are told."""

import asyncio
import hashlib
import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.runtime.config_watcher import SETTLING_SECONDS, ConfigWatcher, ReloadRequest, load_config
from proxy.settings.loader import RestartRequired
from proxy.settings.model import Settings
from proxy.telemetry.metrics.process import ConfigMetrics
from tests.settings.test_loader import MINIMAL
from tests.support.event_loops import in_virtual_time

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


class Stage:
    """A file, who follows it, and what became of it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.registry = CollectorRegistry()
        self.applied: list[tuple[Settings, bool]] = []
        self.fault: Exception | None = None
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)

        self.watcher = ConfigWatcher(
            self.file,
            load_config(self.file),
            self.apply,
            counter=ConfigMetrics(self.registry),
            now=lambda: 1234.5,
            tasks=self.tasks,
        )

    async def apply(self, request: ReloadRequest) -> None:
        if self.fault is not None:
            raise self.fault
        self.applied.append((request.settings, request.discard_decisions))

    @property
    def levels(self) -> list[str]:
        return [settings.log.level for settings, _ in self.applied]

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"understudy_config_{name}", labels)


def write(file: Path, more: str = "") -> str:
    file.write_text(MINIMAL + more)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    write(path)
    return path


@pytest.fixture
def stage(file: Path) -> Stage:
    return Stage(file)


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@in_virtual_time
async def test_what_is_new_is_taken_and_its_hash_is_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    before = hashlib.sha256(MINIMAL.encode()).hexdigest()
    assert stage.sample("info", hash=before) == 1.0
    assert stage.sample("last_success_timestamp_seconds") == 1234.5
    digest = write(stage.file, "log: {level: debug}\n")

    await stage.watcher.check(is_triggered=False)
    await stage.watcher.check(is_triggered=False)

    assert (stage.levels, [discard_decisions for _, discard_decisions in stage.applied]) == (
        ["debug"],
        [False],
    )
    assert (stage.sample("info", hash=digest), stage.sample("info", hash=before)) == (1.0, None)
    assert stage.sample("reloads_total", outcome="used") == 1.0
    (record,) = caplog.records
    told = vars(record)["understudy_fields"]
    assert (record.message, told) == (
        "config reloaded",
        {"hash": digest, "changed": ["log.level"]},
    )


@in_virtual_time
async def test_while_nothing_changes_nothing_is_done_unless_we_are_told(stage: Stage) -> None:
    await stage.watcher.check(is_triggered=False)
    assert stage.applied == []

    await stage.watcher.check(is_triggered=True)

    assert [discard_decisions for _, discard_decisions in stage.applied] == [True]


@in_virtual_time
async def test_a_bad_file_changes_nothing_is_told_once_with_all_its_problems_and_counted(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    before = hashlib.sha256(MINIMAL.encode()).hexdigest()
    write(stage.file, "log: {level: loud}\ncolour: red\n")

    for _ in range(3):
        await stage.watcher.check(is_triggered=False)

    assert stage.applied == []
    assert stage.sample("reloads_total", outcome="refused") == 3.0
    assert stage.sample("info", hash=before) == 1.0
    (record,) = caplog.records
    told = vars(record)["understudy_fields"]
    assert (record.message, record.levelname) == ("config not reloaded", "ERROR")
    assert [problem.rpartition(".yaml: ")[2].partition(":")[0] for problem in told["problems"]] == [
        "log.level",
        "colour",
    ]
    assert told["hash_in_force"] == before
    await stage.watcher.check(is_triggered=True)
    assert len(caplog.records) == 2, "whoever asks is told, though it may be known"


@in_virtual_time
async def test_what_cannot_be_used_yet_is_tried_again(stage: Stage) -> None:
    """A certificate may arrive after the config file that names it."""
    write(stage.file, "log: {level: debug}\n")
    stage.fault = OperatorError("no such file")
    await stage.watcher.check(is_triggered=False)
    assert stage.applied == []

    stage.fault = None
    await stage.watcher.check(is_triggered=False)

    assert stage.levels == ["debug"]


@in_virtual_time
async def test_what_needs_a_restart_is_told_as_such(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    write(stage.file, "log: {level: debug}\n")
    stage.fault = RestartRequired(["serving.address"])

    await stage.watcher.check(is_triggered=False)

    (record,) = caplog.records
    assert record.message == "config reload requires restart"
    assert vars(record)["understudy_fields"]["problems"] == [
        "serving.address: was changed, which needs a restart"
    ]
    assert stage.sample("reloads_total", outcome="restart") == 1.0
    assert stage.sample("reloads_total", outcome="refused") == 0.0


@in_virtual_time
async def test_a_file_that_is_gone_changes_nothing_and_one_that_is_back_is_no_news(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.file.unlink()
    await stage.watcher.check(is_triggered=False)
    write(stage.file)
    await stage.watcher.check(is_triggered=False)

    assert stage.applied == []
    assert [record.message for record in caplog.records] == ["config not reloaded"]


@in_virtual_time
async def test_half_a_file_is_not_taken_for_a_whole_one(file: Path) -> None:
    """Half of a file may be good settings, too: without the rule that comes last."""
    stage = await asyncio.to_thread(Stage, file)
    write(file, "log: {level: debug}\n")
    looking = asyncio.ensure_future(stage.watcher.check(is_triggered=False))
    for more in ("", "  success", "  successTTL: 1s\n  legacy: deny\n"):
        await asyncio.sleep(SETTLING_SECONDS * 0.6)
        assert not looking.done(), "somebody is writing"
        write(file, f"log: {{level: debug}}\nimpersonation:\n  constrained: true\n{more}")
    await looking

    assert [one.impersonation.legacy.default for one, _ in stage.applied] == ["deny"]
    assert stage.sample("reloads_total", outcome="refused") == 0.0


@in_virtual_time
async def test_a_symbolic_link_may_be_turned(tmp_path: Path) -> None:
    """As the kubelet does with a mounted ConfigMap."""

    def version(name: str, more: str) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        write(directory / "config.yaml", more)
        return directory

    def turn(to: Path) -> None:
        link = tmp_path / "..data_tmp"
        link.symlink_to(to)
        link.rename(tmp_path / "..data")

    turn(version("..1", ""))
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    stage = await asyncio.to_thread(Stage, tmp_path / "config.yaml")

    turn(version("..2", "log: {level: debug}\n"))
    await stage.watcher.check(is_triggered=False)

    assert stage.levels == ["debug"]
    assert stage.applied[0][0].serving.certificate_file == tmp_path / "tls.crt"


@in_virtual_time
async def test_a_new_audit_policy_is_news_as_well(tmp_path: Path, file: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    write(file, "audit: {policyFile: policy.yaml}\n")
    stage = await asyncio.to_thread(Stage, file)
    await stage.watcher.check(is_triggered=False)
    assert stage.applied == []

    policy.write_text(POLICY.replace("Metadata", "Request"))
    await stage.watcher.check(is_triggered=False)
    await stage.watcher.check(is_triggered=False)

    assert len(stage.applied) == 1


@in_virtual_time
async def test_it_looks_from_time_to_time_as_the_file_says_and_at_once_when_told(
    file: Path,
) -> None:
    write(file, "configRefresh: 10s\n")
    stage = await asyncio.to_thread(Stage, file)
    stage.tasks.start_background(stage.watcher.run())
    write(file, "configRefresh: 0s\nlog: {level: debug}\n")
    await asyncio.sleep(9)
    assert stage.levels == []
    await asyncio.sleep(3)
    assert stage.levels == ["debug"]
    write(file, "configRefresh: 10s\nlog: {level: error}\n")
    await asyncio.sleep(1_000_000)
    assert stage.levels == ["debug"], "0s is never"

    stage.watcher.trigger()
    await asyncio.sleep(1)
    assert stage.levels == ["debug", "error"]
    stage.fault = ValueError("a bug")
    stage.watcher.trigger()
    await asyncio.sleep(1)
    assert stage.failures == [stage.fault]
    stage.fault = None
    write(file, "configRefresh: 10s\nlog: {level: info}\n")
    await asyncio.sleep(12)
    assert stage.levels[-1] == "info"
    await stage.tasks.stop()
