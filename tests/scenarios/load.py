"""Clients that never stop asking, while something happens to the proxy's own credential."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from proxy.runtime.proxy import run_proxy
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected
from tests.support.scripted_api_server import ScriptedApiServer

REFRESH = "50ms"
USERS = 4


def write_user(api: ScriptedApiServer, directory: Path, user: dict[str, object]) -> Path:
    """Write a kubeconfig for this server whose user is this one."""
    kubeconfig = api.write_kubeconfig(directory, directory / "server-ca.crt")
    document = json.loads(kubeconfig.read_text())
    document["users"][0]["user"] = user
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig


class Load:
    """Clients that ask all the time, as themselves and as others; every answer is kept."""

    def __init__(self, address: tuple[str, int], certificates: Certificates) -> None:
        self._address = address
        self._certificates = certificates
        self._stop = asyncio.Event()
        self._answers = [0] * USERS
        self.statuses: list[int] = []

    async def work(self, number: int) -> None:
        context = self._certificates.client_context(f"user-{number}")
        async with connected(self._address, context) as client:
            while not self._stop.is_set():
                await self._ask(client, number)

    async def _ask(self, client: HttpClient, number: int) -> None:
        for method, body in (("GET", b""), ("POST", b"x" * 1000)):
            headers = [("Impersonate-User", f"bob-{len(self.statuses)}")] if number % 2 else []
            answer = await client.request(method, headers=headers, body=body)
            self.statuses.append(answer.status)
            self._answers[number] += 1

    async def goes_on(self) -> None:
        """Wait until everybody has had some more answers; all that was under way is among them."""
        before = list(self._answers)
        await eventually(
            lambda: all(now >= then + 3 for now, then in zip(self._answers, before, strict=True)),
            seconds=20,
        )

    def stop(self) -> None:
        self._stop.set()


@asynccontextmanager
async def load_on(
    api: ScriptedApiServer, certificates: Certificates, directory: Path, kubeconfig: Path
) -> AsyncIterator[tuple[Load, tuple[str, int]]]:
    """Run a proxy with this kubeconfig, and clients that never stop asking it."""
    upstream = {"credentialRefresh": REFRESH}
    settings = settings_for(api, certificates, directory / "proxy", upstream=upstream)
    own = settings.upstream.model_copy(update={"kubeconfig": kubeconfig})
    async with run_proxy(settings.model_copy(update={"upstream": own})) as proxy:
        await wait_until_it_admits(proxy.address, certificates.client_context("early"))
        load = Load(proxy.address, certificates)
        async with asyncio.TaskGroup() as group:
            for number in range(USERS):
                group.create_task(load.work(number))
            await load.goes_on()
            yield load, proxy.address
            await load.goes_on()
            load.stop()
