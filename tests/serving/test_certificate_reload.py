"""Certificate, key and client CA follow their files: whole, or not at all."""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trustme

from proxy.serving.certificates import (
    CertificateError,
    CertificateFiles,
    ServingCertificates,
    load_certificates,
)
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually


class Listening:
    """Remembers what it was told to use."""

    def __init__(self) -> None:
        self.used: list[tuple[ssl.SSLContext, bool]] = []

    def use(self, context: ssl.SSLContext, *, keeps_trust: bool) -> None:
        self.used.append((context, keeps_trust))

    @property
    def kept_trust(self) -> list[bool]:
        return [keeps_trust for _, keeps_trust in self.used]


class Counter:
    def __init__(self) -> None:
        self.outcomes: list[bool] = []
        self.expiries: list[float] = []

    def certificate_expires(self, at: float) -> None:
        self.expiries.append(at)

    def certificates_read(self, *, used: bool) -> None:
        self.outcomes.append(used)


@dataclass(frozen=True, slots=True)
class Stage:
    files: CertificateFiles
    listening: Listening
    counter: Counter
    certificates: ServingCertificates

    def has_used(self, count: int) -> bool:
        return len(self.listening.used) == count


@pytest.fixture
def stage(certificates: Certificates, tmp_path: Path) -> Stage:
    certificate, key = certificates.write_server_files(tmp_path)
    files = CertificateFiles(certificate, key, certificates.write_client_ca(tmp_path))
    listening, counter = Listening(), Counter()
    loaded = load_certificates(files)
    serving = ServingCertificates(loaded, listening=listening, counter=counter)
    return Stage(files, listening, counter, serving)


def bundle(*authorities: trustme.CA) -> bytes:
    return b"".join(authority.cert_pem.bytes() for authority in authorities)


def write_ca(stage: Stage, content: bytes) -> None:
    assert stage.files.client_ca is not None
    stage.files.client_ca.write_bytes(content)


def spoil(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


async def test_while_the_files_stay_nothing_is_done(stage: Stage) -> None:
    for file in (stage.files.certificate, stage.files.key):
        file.touch()

    await stage.certificates.look()

    assert (stage.listening.used, stage.counter.outcomes) == ([], [])


async def test_a_new_certificate_is_used_and_disturbs_nobody(
    stage: Stage, certificates: Certificates
) -> None:
    certificates.write_server_files(stage.files.certificate.parent)

    await stage.certificates.look()
    await stage.certificates.look()

    assert stage.listening.kept_trust == [True]
    assert stage.counter.outcomes == [True]


async def test_when_the_certificate_ends_is_told(stage: Stage, certificates: Certificates) -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    leaf = certificates.servers.issue_cert("127.0.0.1", not_after=ends)
    stage.files.certificate.write_bytes(leaf.cert_chain_pems[0].bytes())
    stage.files.key.write_bytes(leaf.private_key_pem.bytes())

    await stage.certificates.look()

    assert len(stage.counter.expiries) == 2
    assert stage.counter.expiries[-1] == ends.timestamp()


async def test_a_certificate_without_its_new_key_waits_for_it(
    stage: Stage, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    key = stage.files.key.read_bytes()
    certificates.write_server_files(stage.files.certificate.parent)
    new_key = stage.files.key.read_bytes()
    stage.files.key.write_bytes(key)

    with caplog.at_level(logging.WARNING):
        await stage.certificates.look()
        await stage.certificates.look()
    assert stage.listening.used == []
    assert [record.message for record in caplog.records] == ["certificates not reloaded"]
    stage.files.key.write_bytes(new_key)
    await stage.certificates.look()

    assert stage.listening.kept_trust == [True]
    assert stage.counter.outcomes == [False, False, True]


@pytest.mark.parametrize("which", ["certificate", "key", "client_ca"])
@pytest.mark.parametrize("content", [None, b"", b"hello"], ids=["absent", "empty", "text"])
async def test_a_broken_file_changes_nothing_at_all(
    stage: Stage, which: str, content: bytes | None
) -> None:
    """Not even what is good beside it: all or nothing."""
    write_ca(stage, bundle(trustme.CA()))
    spoil(getattr(stage.files, which), content)

    await stage.certificates.look()

    assert stage.listening.used == []
    assert stage.counter.outcomes == [False]


def test_a_file_that_changes_while_it_is_read_is_not_used(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is remembered as seen and what OpenSSL has seen could differ for ever."""
    read_bytes, times = Path.read_bytes, 0

    def read_and_change(file: Path) -> bytes:
        nonlocal times
        times += file == stage.files.client_ca
        return read_bytes(file) + b"\n" * times

    monkeypatch.setattr(Path, "read_bytes", read_and_change)

    with pytest.raises(CertificateError, match="changes while it is read"):
        load_certificates(stage.files)


@pytest.mark.parametrize(
    ("change", "keeps_trust"),
    [
        ("one more", True),
        ("other line breaks and a comment", True),
        ("another instead", False),
        ("one less", False),
    ],
)
async def test_trust_is_kept_only_if_everything_trusted_is_trusted_still(
    stage: Stage, certificates: Certificates, change: str, keeps_trust: object
) -> None:
    first, second = certificates.clients, trustme.CA()
    write_ca(stage, bundle(first, second))
    await stage.certificates.look()
    assert stage.listening.kept_trust == [True]
    contents = {
        "one more": bundle(trustme.CA(), second, first),
        "other line breaks and a comment": b"# ours\n" + bundle(second, first, first),
        "another instead": bundle(first, trustme.CA()),
        "one less": bundle(first),
    }
    if change.startswith("other line breaks"):
        contents[change] = contents[change].replace(b"\n", b"\r\n")

    write_ca(stage, contents[change])
    await stage.certificates.look()

    assert stage.listening.kept_trust[1:] == [keeps_trust]


@pytest.mark.parametrize("gives", [True, False], ids=["from none to one", "from one to none"])
async def test_whether_certificates_count_can_change(stage: Stage, gives: object) -> None:
    with_ca = stage.files
    without = CertificateFiles(with_ca.certificate, with_ca.key, None)
    before, after = (without, with_ca) if gives else (with_ca, without)
    await stage.certificates.look(before)
    stage.listening.used.clear()

    await stage.certificates.look(after)

    ((context, keeps_trust),) = stage.listening.used
    assert keeps_trust is gives
    assert context.verify_mode is (ssl.CERT_OPTIONAL if gives else ssl.CERT_NONE)


async def test_other_files_are_followed_from_then_on(
    stage: Stage, certificates: Certificates, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = CertificateFiles(*(elsewhere / name for name in ("tls.crt", "tls.key", "ca.crt")))
    for old, new in (
        (stage.files.certificate, moved.certificate),
        (stage.files.key, moved.key),
        (stage.files.client_ca, moved.client_ca),
    ):
        assert old is not None
        assert new is not None
        new.write_bytes(old.read_bytes())
    await stage.certificates.look(moved)
    assert stage.listening.used == []

    write_ca(stage, b"of no more interest")
    assert moved.client_ca is not None
    moved.client_ca.write_bytes(bundle(trustme.CA()))
    await stage.certificates.look()

    assert stage.listening.kept_trust == [False]


async def test_other_files_that_are_broken_are_not_followed(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = CertificateFiles(tmp_path / "typo.crt", stage.files.key, stage.files.client_ca)
    with caplog.at_level(logging.WARNING):
        await stage.certificates.look(wrong)
        await stage.certificates.look(wrong)
    assert len(caplog.records) == 2

    write_ca(stage, bundle(trustme.CA()))
    await stage.certificates.look()

    assert stage.listening.kept_trust == [False]


async def test_the_files_are_looked_at_again_and_again(stage: Stage) -> None:
    looking = asyncio.ensure_future(stage.certificates.keep_fresh(0.01))
    try:
        for count in (1, 2):
            write_ca(stage, bundle(trustme.CA()))
            await eventually(partial(stage.has_used, count))
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def test_a_symbolic_link_may_be_turned(stage: Stage, tmp_path: Path) -> None:
    """As the kubelet does with mounted secrets."""
    assert stage.files.client_ca is not None
    versions = [tmp_path / "..version-1", tmp_path / "..version-2"]
    for version in versions:
        version.mkdir()
        (version / "ca.crt").write_bytes(bundle(trustme.CA()))
    link, data = stage.files.client_ca, tmp_path / "..data"
    data.symlink_to(versions[0])
    link.unlink()
    link.symlink_to(data / "ca.crt")
    await stage.certificates.look()
    assert len(stage.listening.used) == 1

    turned = tmp_path / "..data_tmp"
    turned.symlink_to(versions[1])
    turned.rename(data)
    await stage.certificates.look()

    assert len(stage.listening.used) == 2
