"""A proxy with two identities before a scripted API server, and what it says of itself."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

import aiohttp
import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.model import Settings
from tests.scenarios.conftest import Section, settings_document, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.proxy_calls import Document
from tests.support.scripted_api_server import OWN_TOKEN, ScriptedApiServer, SeenRequest

REVIEWER_TOKEN = "the-token-of-the-reviewer"
FORWARDER = {"serviceAccount": "understudy:proxy"}
Context = Callable[[str | None], SSLContext]


class Stage:
    """An API server and the files of a proxy before it."""

    def __init__(self, api: ScriptedApiServer, certificates: Certificates, directory: Path) -> None:
        self.api = api
        self._certificates = certificates
        self._directory = directory

    def kubeconfig(self, name: str, token: str) -> Path:
        directory = self._directory / name
        directory.mkdir()
        ca_file = self._certificates.write_server_ca(directory)
        file = self.api.write_kubeconfig(directory, ca_file)
        file.write_text(file.read_text().replace(OWN_TOKEN, token))
        return file

    def write_pod(self, directory: Path) -> None:
        """Write what a pod of the reviewer's account has in its files."""
        directory.mkdir()
        self._certificates.write_server_ca(directory)
        (directory / "token").write_text(REVIEWER_TOKEN)
        (directory / "namespace").write_text("understudy")

    def two_kubeconfigs(self) -> dict[str, object]:
        self.api.reviewer_tokens.add(REVIEWER_TOKEN)
        reviewer = self.kubeconfig("reviewer", REVIEWER_TOKEN)
        return {"reviewer": {"kubeconfig": str(reviewer)}}

    def requested_token(self) -> dict[str, object]:
        self.api.reviewer_tokens.add(REVIEWER_TOKEN)
        self.api.own_tokens.clear()
        reviewer = self.kubeconfig("pod", REVIEWER_TOKEN)
        return {"kubeconfig": str(reviewer), "forwarder": FORWARDER, "credentialRefresh": "50ms"}

    @asynccontextmanager
    async def running(self, upstream: Section) -> AsyncIterator[tuple[Proxy, str]]:
        """Run a proxy; yields it and the URL of its admin port."""
        document = settings_document(
            self.api, self._certificates, self._directory, upstream=upstream
        )
        with ReservedPort() as port:
            admin = f"{LOOPBACK}:{port.number}"
            settings = Settings.model_validate({**document, "admin": {"address": admin}})
            async with run_proxy(settings) as proxy:
                yield proxy, f"http://{admin}"


def events(caplog: pytest.LogCaptureFixture, message: str) -> list[Document]:
    return [
        vars(record)["understudy_fields"] for record in caplog.records if record.message == message
    ]


async def readiness(admin: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{admin}/readyz?verbose") as page:
        return page.status, await page.text()


def shown(requests: Sequence[SeenRequest]) -> set[str]:
    return {value for one in requests for value in one.values("authorization")}


async def ask(proxy: Proxy, context_of: Context) -> None:
    """Send a request that needs a review, and see it carried out."""
    await wait_until_it_admits(proxy.address, context_of("early"))
    async with connected(proxy.address, context_of("alice")) as client:
        answer = await client.request(headers=[("Impersonate-User", "bob")])
    assert (answer.status, json.loads(answer.body)["user"]) == (200, "bob")
