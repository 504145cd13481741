"""A receiver of audit webhooks: it can be down, slow, or in a bad mood."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.certificates import Certificates

Answer = Callable[[list[dict[str, Any]]], Awaitable[int]]


async def accept(events: list[dict[str, Any]]) -> int:
    return 200


class AuditReceiver:
    """What was received. A call that is not answered with a success counts as not received."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.answer: Answer = accept
        self.documents: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.calls = 0

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that was accepted, in order."""
        return [event for document in self.documents for event in document["items"]]

    def ids(self) -> list[str]:
        return [event["auditID"] for event in self.events]

    async def come_up(self) -> None:
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/audit", self._receive)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._context)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def go_down(self) -> None:
        """Be gone, open connections too; the port stays ours to come back to."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def write_kubeconfig(self, directory: Path, ca_file: Path, *, token: str = "") -> Path:
        file = directory / "webhook.yaml"
        cluster = {
            "server": f"https://127.0.0.1:{self.port}/audit",
            "certificate-authority": str(ca_file),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token} if token else {}}],
        }
        file.write_text(json.dumps(document))
        return file

    async def _receive(self, request: web.Request) -> web.Response:
        self.calls += 1
        document = json.loads(await request.read())
        status = await self.answer(document["items"])
        if status == 200:
            self.documents.append(document)
            self.headers.append(dict(request.headers))
        return web.Response(status=status)


@asynccontextmanager
async def audit_receiver(certificates: Certificates) -> AsyncIterator[AuditReceiver]:
    """Run a receiver; it may be down when the test is over."""
    receiver = AuditReceiver(await asyncio.to_thread(certificates.server_context))
    await receiver.come_up()
    try:
        yield receiver
    finally:
        await receiver.go_down()
