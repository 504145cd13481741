"""The admin port: health and metrics for machines, on a port of its own.

On the proxy port every path belongs to the API server.
"""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from proxy.admin.health import HealthCheck, HealthPage
from proxy.core.errors import SetupError

_STOP_SECONDS = 1.0


class AdminPortError(SetupError):
    """The address of the admin port cannot be listened on."""


Page = Callable[[web.BaseRequest], Awaitable[web.Response]]


class _Connection(RequestHandler):
    """A connection that does not repeat what it could not read: scrapers, too, send tokens."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - this is what repeats it
    ) -> web.StreamResponse:
        """Answer with nothing but the status."""
        return super().handle_error(request, status, exc, HTTPStatus(status).phrase)


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


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
        self._pages: dict[str, Page] = {"/metrics": self._metrics}
        for name, checks in (("livez", live), ("readyz", ready)):
            self._pages[f"/{name}"] = HealthPage(name, checks).answer
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        self._runner = web.ServerRunner(
            _Server(self._answer, access_log=None), shutdown_timeout=_STOP_SECONDS
        )
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

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        page = self._pages.get(request.path)
        if page is None:
            return web.Response(status=HTTPStatus.NOT_FOUND)
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET,HEAD"})
        return await page(request)

    async def _metrics(self, _request: web.BaseRequest) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
