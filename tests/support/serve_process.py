"""`understudy serve` as a process of its own, before a scripted API server."""

import asyncio
import resource
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.support.certificates import Certificates
from tests.support.http_client import Response, connected
from tests.support.scripted_api_server import ScriptedApiServer

PATIENCE_SECONDS = 30.0


class Understudy:
    """A running program, its two ports, and what it says there."""

    def __init__(
        self,
        process: Process,
        ports: tuple[int, int],
        certificates: Certificates,
        log_file: Path,
    ) -> None:
        self.process = process
        self.log_file = log_file
        self.address = (LOOPBACK, ports[0])
        self.admin_address = (LOOPBACK, ports[1])
        self._admin = f"http://{LOOPBACK}:{ports[1]}"
        self.context = certificates.client_context("alice")

    async def metric(self, series: str) -> float:
        """Return the value of a series, given as its line begins; 0 if it is not there."""
        _, page = await self.probe("/metrics")
        values = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(series)]
        return sum(map(float, values))

    async def probe(self, page: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self._admin + page) as answer:
            return answer.status, await answer.text()

    async def wait_for(self, page: str, status: int) -> None:
        """Ask until the probe has this status."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    if (await self.probe(page))[0] == status:
                        return
                except aiohttp.ClientError:
                    pass  # it does not listen yet
                assert self.process.returncode is None
                await asyncio.sleep(0.02)

    async def get(self) -> Response:
        async with connected(self.address, self.context) as client:
            return await client.request()

    async def exit_code(self, *, seconds: float = PATIENCE_SECONDS) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()


Sections = Mapping[str, Mapping[str, Any]]


@asynccontextmanager
async def serving(
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    *,
    audit: Any = None,
    **shutdown: str,
) -> AsyncIterator[Understudy]:
    """Run the proxy before this API server; killed at the end if it still runs."""
    sections: Sections = {"audit": audit or {}, "serving": {"shutdown": shutdown}}
    async with serving_by(sections, api, certificates, directory) as understudy:
        yield understudy


@asynccontextmanager
async def serving_by(
    sections: Sections,
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    *,
    open_files: int | None = None,
    program: Sequence[str] = ("proxy", "serve", "--config"),
) -> AsyncIterator[Understudy]:
    """Run the proxy with these sections of the config file, each added to the usual ones.

    `open_files` is the limit of the process, if not the usual one. `program` is a module and its
    options before the config file.
    """
    certificate, key = certificates.write_server_files(directory)
    kubeconfig = api.write_kubeconfig(directory, certificates.write_server_ca(directory))
    with ReservedPort() as port, ReservedPort() as admin_port:
        document: dict[str, Any] = {
            "apiVersion": "kube-understudy.io/v1alpha1",
            "kind": "ProxyConfiguration",
            "serving": {
                "address": f"{LOOPBACK}:{port.number}",
                "certificateFile": str(certificate),
                "keyFile": str(key),
            },
            "authentication": {
                "clientCertificate": {"caFile": str(certificates.write_client_ca(directory))}
            },
            "upstream": {"kubeconfig": str(kubeconfig)},
            "admin": {"address": f"{LOOPBACK}:{admin_port.number}"},
        }
        for name, section in sections.items():
            document[name] = {**document.get(name, {}), **section}
        config = directory / "config.yaml"
        config.write_text(yaml.safe_dump(document))
        log_file = directory / "understudy.log"
        with log_file.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *program, str(config)),
                stderr=log,
                preexec_fn=partial(_limit_open_files, open_files) if open_files else None,
            )
        try:
            yield Understudy(process, (port.number, admin_port.number), certificates, log_file)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _limit_open_files(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
