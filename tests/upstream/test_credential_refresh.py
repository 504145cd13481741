"""Our identity read again: what changed is taken whole, what cannot be used changes nothing."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from proxy.upstream.credential_source import CredentialSource
from proxy.upstream.credentials import CredentialsError, UpstreamCredentials, load_credentials
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually
from tests.upstream.kubeconfigs import kubeconfig, load

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


async def test_a_token_file_of_a_kubeconfig_is_read_again(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first")
    loaded = await load(kubeconfig(tmp_path, user={"tokenFile": str(token_file)}))
    endpoints = loaded.endpoints

    await asyncio.to_thread(token_file.write_text, "second\n")

    assert await loaded.refresh()
    assert (loaded.authorization, loaded.version) == (b"Bearer second", 2)
    assert loaded.configuration.api_key == {"BearerToken": "Bearer second"}
    assert loaded.endpoints is endpoints  # connections need not be new


async def test_nothing_new_is_no_change(tmp_path: Path) -> None:
    loaded = await load(kubeconfig(tmp_path))

    assert not await loaded.refresh()
    assert loaded.version == 1


async def test_a_kubeconfig_may_turn_from_a_token_to_a_certificate(
    tmp_path: Path, certificates: Certificates
) -> None:
    loaded = await load(kubeconfig(tmp_path))
    certificate, key = certificates.write_server_files(tmp_path)
    kubeconfig(tmp_path, user={"client-certificate": str(certificate), "client-key": str(key)})

    assert await loaded.refresh()
    assert loaded.authorization is None
    assert loaded.configuration.api_key == {}


@pytest.mark.parametrize("changed", ["certificate", "CA", "server"])
async def test_what_connections_depend_on_makes_new_endpoints(
    tmp_path: Path, certificates: Certificates, changed: str
) -> None:
    certificate, key = certificates.write_server_files(tmp_path)
    ca_file = certificates.write_server_ca(tmp_path)
    cluster: dict[str, object] = {"certificate-authority": str(ca_file)}
    user: dict[str, object] = {"client-certificate": str(certificate), "client-key": str(key)}
    loaded = await load(kubeconfig(tmp_path, cluster, user))
    old = loaded.endpoints

    if changed == "certificate":
        certificates.write_server_files(tmp_path)
    elif changed == "CA":
        new_certificates().write_server_ca(tmp_path)
    else:
        kubeconfig(tmp_path, {**cluster, "server": "https://127.0.0.2:6443"}, user)

    assert await loaded.refresh()
    assert loaded.endpoints[0].context is not old[0].context
    assert loaded.version == 2


async def test_a_certificate_without_its_key_changes_nothing(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Certificate and key are two files, written one after the other."""
    certificate, key = certificates.write_server_files(tmp_path)
    user: dict[str, object] = {"client-certificate": str(certificate), "client-key": str(key)}
    loaded = await load(kubeconfig(tmp_path, user=user))
    old, old_key = loaded.endpoints, key.read_bytes()
    certificates.write_server_files(tmp_path)
    new_key = key.read_bytes()

    key.write_bytes(old_key)
    with pytest.raises(CredentialsError):
        await loaded.refresh()
    assert (loaded.endpoints, loaded.version) == (old, 1)

    key.write_bytes(new_key)
    assert await loaded.refresh()
    assert loaded.endpoints != old


async def test_addresses_stand_in_for_the_one_that_is_written(tmp_path: Path) -> None:
    cluster: dict[str, object] = {"tls-server-name": "kubernetes"}
    places = [("10.0.0.1", 6443), ("api.example", 443)]

    named = await load(kubeconfig(tmp_path, cluster), *places)
    plain = await load(kubeconfig(tmp_path), *places)

    assert [(one.host, one.port) for one in named.endpoints] == places
    assert [one.server_name for one in named.endpoints] == ["kubernetes"] * 2
    assert [one.server_name for one in plain.endpoints] == ["10.0.0.1", "api.example"]
    assert plain.endpoints[0].context is plain.endpoints[1].context


async def test_a_plugin_is_run_again_shortly_before_its_token_expires(
    plugin: Plugin, wall: Wall
) -> None:
    plugin.prints(token("first", NOON + timedelta(minutes=10)))
    loaded = await load_credentials(plugin.kubeconfig(), now=wall)
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
    loaded = await load_credentials(plugin.kubeconfig(), now=wall)
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
    loaded = await load_credentials(file, now=wall)
    plugin.prints(token("second"))

    file.write_text(file.read_text() + "\n")

    assert await refreshed(loaded) == b"Bearer second"


async def test_a_plugin_may_give_a_certificate_which_expires_too(
    plugin: Plugin, wall: Wall, certificates: Certificates
) -> None:
    expires = NOON + timedelta(minutes=10)
    plugin.prints(pair(certificates.clients, expires))
    loaded = await load_credentials(plugin.kubeconfig(), now=wall)
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
    loaded = await load_credentials(plugin.kubeconfig(), now=wall)
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
        await load_credentials(plugin.kubeconfig(), now=wall)


async def test_a_plugin_that_hangs_is_ended(
    plugin: Plugin, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.upstream.credential_source._PLUGIN_SECONDS", 2.0)
    plugin.hangs()

    with pytest.raises(CredentialsError, match="took longer"):
        await load_credentials(plugin.kubeconfig(), now=wall)

    await eventually(lambda: not plugin.is_running)


async def test_another_users_plugin_does_not_keep_our_token_file_from_being_read(
    tmp_path: Path, wall: Wall
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first")
    file = kubeconfig(tmp_path, user={"tokenFile": str(token_file)})
    document = json.loads(file.read_text())
    document["users"].append({"name": "other", "user": {"exec": {"command": "false"}}})
    file.write_text(json.dumps(document))
    loaded = await load_credentials(file, now=wall)

    token_file.write_text("second")

    assert await refreshed(loaded) == b"Bearer second"


def test_a_source_has_a_name_for_people() -> None:
    assert str(CredentialSource(None, datetime.now)) == "the pod's service account"
    assert str(CredentialSource(Path("/a/b"), datetime.now)) == "kubeconfig /a/b"
