"""The CA that the proxy is known by: read at the start, and again when it changes."""

import asyncio
from pathlib import Path

import pytest

from proxy.sidecar.proxy_endpoint import ProxyEndpoint, ProxyEndpointError
from tests.support.certificates import Certificates


@pytest.fixture
def ca_file(certificates: Certificates, tmp_path: Path) -> Path:
    return certificates.write_server_ca(tmp_path)


async def known(ca_file: Path | None) -> ProxyEndpoint:
    return await asyncio.to_thread(ProxyEndpoint, ("proxy", 443), ca_file)


def add(file: Path, content: bytes) -> None:
    file.write_bytes(file.read_bytes() + content)


def put(file: Path, content: bytes | None) -> None:
    """Give a file another content, or none at all."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


async def test_a_new_ca_is_trusted_by_a_new_endpoint(
    ca_file: Path, certificates: Certificates
) -> None:
    server = await known(ca_file)
    before = server.endpoints

    await server.reload()
    unchanged = server.endpoints
    add(ca_file, certificates.clients.cert_pem.bytes())
    await server.reload()

    assert unchanged is before
    assert server.endpoints[0].context is not before[0].context
    assert (server.endpoints[0].host, server.endpoints[0].server_name) == ("proxy", "proxy")


@pytest.mark.parametrize("content", [b"", b"nonsense", None], ids=["empty", "nonsense", "gone"])
async def test_a_ca_that_cannot_be_used_leaves_the_old_one(
    content: bytes | None, ca_file: Path
) -> None:
    server = await known(ca_file)
    before = server.endpoints

    put(ca_file, content)
    await server.reload()

    assert server.endpoints is before


def test_at_the_start_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProxyEndpointError, match=r"cannot read .*none: No such file"):
        ProxyEndpoint(("proxy", 443), tmp_path / "none")


async def test_without_a_file_the_systems_cas_count() -> None:
    server = await known(None)
    before = server.endpoints

    await server.reload()

    assert server.endpoints is before
