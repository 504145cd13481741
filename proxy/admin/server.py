"""The admin port: health and metrics for machines, on a port of its own.

On the proxy port every path belongs to the API server.
"""

from collections.abc import Sequence

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from proxy.admin.health import HealthCheck, HealthPage
from proxy.core.errors import SetupError

_STOP_SECONDS = 1.0


class AdminPortError(SetupError):
    """The address of the admin port cannot be listened on."""


class AdminServer:
    """Serves what operators and their tools ask."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        live: Sequence[HealthCheck] = (),
        ready: Sequence[HealthCheck] = (),
    ) -> None:
        self._registry = registry
        self._pages = {"livez": live, "readyz": ready}
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        for name, checks in self._pages.items():
            application.router.add_get(f"/{name}", HealthPage(name, checks).answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, reuse_port=True)
        try:
            await site.start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise AdminPortError(f"cannot listen on {host}:{port}: {reason}") from error

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
