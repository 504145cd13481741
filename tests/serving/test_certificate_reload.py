"""Certificate and key follow their files: both, or not at all."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from OpenSSL import SSL
from prometheus_client import CollectorRegistry

from proxy.concurrency.task_set import TaskSet
from proxy.serving.certificates import (
    CertificateFiles,
    ServingCertificates,
    load_certificates,
    load_if_changed,
)
from proxy.telemetry.metrics.serving import ServingMetrics
from tests.support.certificates import Certificates
from tests.support.event_loops import in_virtual_time


class Metrics:
    """Metrics, and what was counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.counter = ServingMetrics(self._registry)

    @property
    def reloads(self) -> tuple[float, float]:
        """How many contents were used, and how many were refused."""
        name = "understudy_certificate_reloads_total"
        used, refused = (
            self._registry.get_sample_value(name, {"outcome": outcome}) or 0
            for outcome in ("used", "refused")
        )
        return used, refused

    @property
    def expires(self) -> float | None:
        return self._registry.get_sample_value("understudy_serving_certificate_expiry_seconds")


@dataclass(frozen=True, slots=True)
class Stage:
    files: CertificateFiles
    used: list[SSL.Context]
    metrics: Metrics
    certificates: ServingCertificates

    async def choose(self, files: CertificateFiles) -> None:
        current = self.certificates.loaded
        self.certificates.use(await asyncio.to_thread(load_if_changed, files, current))

    def has_used(self, count: int) -> bool:
        return len(self.used) == count


@pytest.fixture
def stage(certificates: Certificates, tmp_path: Path) -> Stage:
    certificate, key = certificates.write_server_files(tmp_path)
    files = CertificateFiles(certificate, key, requests_client_certificate=True)
    used: list[SSL.Context] = []
    metrics = Metrics()
    loaded = load_certificates(files)
    serving = ServingCertificates(loaded, use_context=used.append, counter=metrics.counter)
    return Stage(files, used, metrics, serving)


def rewrite(stage: Stage, certificates: Certificates) -> None:
    certificates.write_server_files(stage.files.certificate.parent)


def spoil(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


async def test_while_the_files_stay_nothing_is_done(stage: Stage) -> None:
    for file in (stage.files.certificate, stage.files.key):
        file.touch()

    await stage.certificates.reload()

    assert (stage.used, stage.metrics.reloads) == ([], (0, 0))


async def test_a_new_certificate_is_used_once(stage: Stage, certificates: Certificates) -> None:
    certificates.write_server_files(stage.files.certificate.parent)

    await stage.certificates.reload()
    await stage.certificates.reload()

    assert stage.has_used(1)
    assert stage.metrics.reloads == (1, 0)


async def test_when_the_certificate_ends_is_told(stage: Stage, certificates: Certificates) -> None:
    first = stage.metrics.expires
    assert first == stage.certificates.loaded.expires_at
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    leaf = certificates.servers.issue_cert("127.0.0.1", not_after=ends)
    stage.files.certificate.write_bytes(leaf.cert_chain_pems[0].bytes())
    stage.files.key.write_bytes(leaf.private_key_pem.bytes())

    await stage.certificates.reload()

    assert stage.metrics.expires == ends.timestamp()


async def test_a_certificate_without_its_new_key_waits_for_it(
    stage: Stage, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    key = stage.files.key.read_bytes()
    certificates.write_server_files(stage.files.certificate.parent)
    new_key = stage.files.key.read_bytes()
    stage.files.key.write_bytes(key)

    with caplog.at_level(logging.WARNING):
        await stage.certificates.reload()
        await stage.certificates.reload()
    assert stage.used == []
    assert [record.message for record in caplog.records] == ["certificates not reloaded"]
    stage.files.key.write_bytes(new_key)
    await stage.certificates.reload()

    assert stage.has_used(1)
    assert stage.metrics.reloads == (1, 2)


@pytest.mark.parametrize("which", ["certificate", "key"])
@pytest.mark.parametrize("content", [None, b"", b"hello"], ids=["absent", "empty", "text"])
async def test_a_broken_file_changes_nothing_at_all(
    stage: Stage, certificates: Certificates, which: str, content: bytes | None
) -> None:
    """Not even what is good beside it: all or nothing."""
    rewrite(stage, certificates)
    spoil(getattr(stage.files, which), content)

    await stage.certificates.reload()

    assert stage.used == []
    assert stage.metrics.reloads == (0, 1)


@pytest.mark.parametrize("asks", [True, False], ids=["from no to yes", "from yes to no"])
async def test_whether_certificates_count_can_change(stage: Stage, asks: object) -> None:
    yes = stage.files
    no = CertificateFiles(yes.certificate, yes.key, requests_client_certificate=False)
    before, after = (no, yes) if asks else (yes, no)
    await stage.choose(before)
    stage.used.clear()

    await stage.choose(after)

    (context,) = stage.used
    assert context.get_verify_mode() == (SSL.VERIFY_PEER if asks else SSL.VERIFY_NONE)


async def test_other_files_are_followed_from_then_on(
    stage: Stage, certificates: Certificates, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = CertificateFiles(
        elsewhere / "server.crt", elsewhere / "server.key", requests_client_certificate=True
    )
    moved.certificate.write_bytes(stage.files.certificate.read_bytes())
    moved.key.write_bytes(stage.files.key.read_bytes())
    await stage.choose(moved)
    assert stage.used == []

    stage.files.certificate.write_bytes(b"of no more interest")
    certificates.write_server_files(elsewhere)
    await stage.certificates.reload()

    assert stage.has_used(1)


async def test_other_files_that_were_chosen_meanwhile_are_not_overtaken(
    stage: Stage, certificates: Certificates, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    files = CertificateFiles(
        *certificates.write_server_files(elsewhere), requests_client_certificate=True
    )
    chosen = await asyncio.to_thread(load_certificates, files)
    rewrite(stage, certificates)

    looking = asyncio.ensure_future(stage.certificates.reload())
    await asyncio.sleep(0)
    stage.certificates.use(chosen)
    await looking

    assert stage.used == [chosen.context]
    assert stage.certificates.loaded is chosen


@in_virtual_time
async def test_the_files_are_looked_at_again_and_again(
    stage: Stage, certificates: Certificates
) -> None:
    tasks = TaskSet(lambda _: None)
    tasks.start_background(stage.certificates.run(60, tasks))
    await asyncio.sleep(1)
    for count in (1, 2):
        rewrite(stage, certificates)
        assert not stage.has_used(count)
        await asyncio.sleep(60)
        assert stage.has_used(count)
    await tasks.stop()


async def test_a_symbolic_link_may_be_turned(
    stage: Stage, certificates: Certificates, tmp_path: Path
) -> None:
    """As the kubelet does with mounted secrets."""
    versions = [tmp_path / "..version-1", tmp_path / "..version-2"]
    for version in versions:
        version.mkdir()
        certificates.write_server_files(version)
    data = tmp_path / "..data"
    data.symlink_to(versions[0])
    for link in (stage.files.certificate, stage.files.key):
        link.unlink()
        link.symlink_to(data / link.name)
    await stage.certificates.reload()
    assert stage.has_used(1)

    turned = tmp_path / "..data_tmp"
    turned.symlink_to(versions[1])
    turned.rename(data)
    await stage.certificates.reload()

    assert stage.has_used(2)
