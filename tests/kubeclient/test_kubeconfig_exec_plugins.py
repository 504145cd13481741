"""Programs that give us our credential: when they are run again, and what if they fail."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from proxy.kubeclient.kubeconfig import KubeconfigSource
from proxy.upstream.credentials.credentials import (
    CredentialsError,
    UpstreamCredentials,
    load_credentials,
)
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.upstream.kubeconfigs import kubeconfig

API_VERSION = "client.authentication.k8s.io/v1"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


class Wall:
    """A clock on the wall."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Plugin:
    """An exec plugin: a program that prints what it is told, and counts its runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._output = directory / "output"
        self._runs = directory / "runs"
        self._process = directory / "process"
        self.program = directory / "plugin"

    def prints(self, status: object, *, exit_code: int = 0) -> None:
        credential = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}
        self._output.write_text(json.dumps(credential))
        self._write(f"cat {self._output}\nexit {exit_code}")

    def hangs(self) -> None:
        self._write(f"echo $$ > {self._process}\nexec sleep 600")

    @property
    def is_running(self) -> bool:
        return Path("/proc", self._process.read_text().strip()).exists()

    def complains(self) -> None:
        self._write("echo 'the first line' >&2; echo 'the second' >&2; exit 7")

    @property
    def runs(self) -> int:
        return len(self._runs.read_text())

    def kubeconfig(self) -> Path:
        command = {"apiVersion": API_VERSION, "command": str(self.program)}
        return kubeconfig(self._directory, user={"exec": command})

    def _write(self, commands: str) -> None:
        self.program.write_text(f"#!/bin/sh\nprintf x >> {self._runs}\n{commands}\n")
        self.program.chmod(0o755)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def token(name: str, expires: datetime | None = None) -> dict[str, str]:
    if expires is None:
        return {"token": name}
    return {"token": name, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}


async def refreshed(credentials: UpstreamCredentials) -> bytes | None:
    await credentials.refresh()
    return credentials.authorization


async def test_a_plugin_is_run_again_shortly_before_its_token_expires(
    plugin: Plugin, wall: Wall
) -> None:
    plugin.prints(token("first", NOON + timedelta(minutes=10)))
    loaded = await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))
    plugin.prints(token("second", NOON + timedelta(minutes=20)))

    wall.now += timedelta(minutes=8)
    assert await refreshed(loaded) == b"Bearer first"
    assert plugin.runs == 1

    wall.now += timedelta(minutes=1)
    assert await refreshed(loaded) == b"Bearer second"
    assert await refreshed(loaded) == b"Bearer second"
    assert plugin.runs == 2


async def test_a_plugin_whose_token_never_expires_is_run_again_only_when_it_is_refused(
    plugin: Plugin, wall: Wall
) -> None:
    plugin.prints(token("first"))
    loaded = await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))
    plugin.prints(token("second"))

    wall.now += timedelta(days=300)
    assert await refreshed(loaded) == b"Bearer first"

    assert await loaded.refresh(renew=True)
    assert loaded.authorization == b"Bearer second"
    assert plugin.runs == 2


async def test_a_plugin_is_run_again_when_the_kubeconfig_changes(
    plugin: Plugin, wall: Wall
) -> None:
    plugin.prints(token("first"))
    file = plugin.kubeconfig()
    loaded = await load_credentials(KubeconfigSource(file, wall))
    plugin.prints(token("second"))

    file.write_text(file.read_text() + "\n")

    assert await refreshed(loaded) == b"Bearer second"


async def test_a_plugin_may_give_a_certificate_which_expires_too(
    plugin: Plugin, wall: Wall, certificates: Certificates
) -> None:
    expires = NOON + timedelta(minutes=10)
    plugin.prints(pair(certificates.clients, expires))
    loaded = await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))
    old = loaded.endpoints
    plugin.prints(pair(certificates.clients, expires + timedelta(days=1)))

    assert not await loaded.refresh()
    wall.now = expires - timedelta(seconds=30)
    assert await loaded.refresh()

    assert loaded.authorization is None
    assert loaded.endpoints != old
    assert plugin.runs == 2


def pair(authority: trustme.CA, expires: datetime) -> dict[str, str]:
    leaf = authority.issue_cert(common_name="proxy", not_after=expires)
    return {
        "clientCertificateData": leaf.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": leaf.private_key_pem.bytes().decode(),
    }


@pytest.mark.parametrize(
    "status", [{}, [], {"token": ""}, {"token": "a\nb"}, {"clientCertificateData": "x"}]
)
async def test_a_plugin_that_gives_nothing_of_use_changes_nothing_and_is_run_again(
    plugin: Plugin, wall: Wall, status: object
) -> None:
    plugin.prints(token("first", NOON + timedelta(minutes=10)))
    loaded = await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))
    wall.now += timedelta(minutes=9, seconds=30)

    plugin.prints(status)
    for _ in range(2):
        with pytest.raises(CredentialsError):
            await loaded.refresh()
    assert (loaded.authorization, loaded.version) == (b"Bearer first", 1)

    plugin.prints(token("second", NOON + timedelta(minutes=30)))
    assert await refreshed(loaded) == b"Bearer second"
    assert plugin.runs == 4


async def test_a_plugin_that_complains_is_told_in_one_line(plugin: Plugin, wall: Wall) -> None:
    plugin.complains()

    with pytest.raises(CredentialsError, match=r"returned 7\. the first line the second$"):
        await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))


async def test_a_plugin_that_hangs_is_ended(
    plugin: Plugin, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.kubeclient.kubeconfig._PLUGIN_SECONDS", 2.0)
    plugin.hangs()

    with pytest.raises(CredentialsError, match="took longer"):
        await load_credentials(KubeconfigSource(plugin.kubeconfig(), wall))

    await eventually(lambda: not plugin.is_running)
