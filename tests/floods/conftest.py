"""A scripted API server, and what the proxy before it says."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.certificates import Certificates, new_certificates
from tests.support.scripted_api_server import ScriptedApiServer, scripted_api_server


@pytest.fixture(scope="package")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server


@pytest.fixture
def own_kubeconfig(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Path:
    """The proxy's own credential, whose token is in the file `token` beside it."""
    (tmp_path / "token").write_text(next(iter(api.own_tokens)))
    usual = api.write_kubeconfig(tmp_path, certificates.write_server_ca(tmp_path))
    document = json.loads(usual.read_text())
    document["users"] = [{"name": "u", "user": {"tokenFile": str(tmp_path / "token")}}]
    kubeconfig = tmp_path / "own.yaml"
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig


def carries(api: ScriptedApiServer, token: str) -> bool:
    """Tell whether the last request was forwarded with this token of the proxy."""
    return api.requests[-1].values("authorization") == [f"Bearer {token}"]


async def log_of(file: Path) -> str:
    return await asyncio.to_thread(file.read_text)
