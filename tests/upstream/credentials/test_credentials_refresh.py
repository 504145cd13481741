"""Our identity read again: what changed is taken whole, what cannot be used changes nothing."""

import asyncio
import json
from datetime import datetime
from pathlib import Path

import pytest

from proxy.kubeclient.kubeconfig import KubeconfigSource
from proxy.upstream.credentials.credentials import CredentialsError
from tests.support.certificates import Certificates, new_certificates
from tests.upstream.kubeconfigs import kubeconfig, load


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


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


async def test_another_users_plugin_does_not_keep_our_token_file_from_being_read(
    tmp_path: Path,
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first")
    file = kubeconfig(tmp_path, user={"tokenFile": str(token_file)})
    document = json.loads(file.read_text())
    document["users"].append({"name": "other", "user": {"exec": {"command": "false"}}})
    file.write_text(json.dumps(document))
    loaded = await load(file)

    token_file.write_text("second")

    assert await loaded.refresh()
    assert loaded.authorization == b"Bearer second"


def test_a_source_has_a_name_for_people() -> None:
    assert str(KubeconfigSource(None, datetime.now)) == "the pod's service account"
    assert str(KubeconfigSource(Path("/a/b"), datetime.now)) == "kubeconfig /a/b"
