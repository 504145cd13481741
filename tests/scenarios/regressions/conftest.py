"""A proxy that is watched from all sides: its audit trail, its metrics, its log at debug."""

import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.runtime.proxy import run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.admin import AdminSettings
from proxy.settings.audit import AuditSettings
from proxy.settings.model import Settings
from proxy.telemetry.logs import configure_logs
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.restored_logging import restored_logging
from tests.support.scripted_api_server import ScriptedApiServer

Change = Callable[[Settings], Settings]


@pytest.fixture
def change() -> Change:
    """What a test wants to be set differently."""
    return lambda settings: settings


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def admin_port() -> Iterator[int]:
    with ReservedPort() as port:
        yield port.number


@pytest.fixture
def settings(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    audit_log: Path,
    admin_port: int,
) -> Settings:
    return settings_for(api, certificates, tmp_path).model_copy(
        update={
            "audit": AuditSettings.model_validate({"log": {"path": str(audit_log)}}),
            "admin": AdminSettings.model_validate({"address": f"{LOOPBACK}:{admin_port}"}),
        }
    )


@pytest.fixture
async def proxy(
    settings: Settings,
    change: Change,
    api: ScriptedApiServer,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> AsyncIterator[tuple[str, int]]:
    async with run_proxy(change(settings)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        yield proxy.address


@pytest.fixture
def debug_log() -> Iterator[io.StringIO]:
    """Our log, at the level that tells the most."""
    stream = io.StringIO()
    with restored_logging():
        configure_logs(style="json", level="debug", stream=stream)
        yield stream


def events_in(audit_log: Path) -> list[dict[str, Any]]:
    """Return what the audit trail tells so far; the last line may still be on its way."""
    if not audit_log.exists():
        return []
    lines = audit_log.read_bytes().rpartition(b"\n")[0].splitlines()
    return [json.loads(line) for line in lines]
