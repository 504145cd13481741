"""The admin port: health and metrics for machines, on a port of its own.

On the proxy port every path belongs to the API server.
"""

import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from proxy.admin.health import HealthPage
from proxy.core.errors import SetupError

_STOP_SECONDS = 1.0
_METRICS = "metrics"


class AdminPortError(SetupError):
    """The address of the admin port cannot be listened on."""


class Page(Protocol):
    """Answers one path."""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the answer."""
        ...


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
    """Serves what operators and their tools ask: health to anybody, metrics by their own page."""

    def __init__(self, metrics: Page, health: Mapping[str, HealthPage]) -> None:
        """`health` are the pages of health by their names, such as readyz."""
        self._metrics = metrics
        self._health = health
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Listen; with TLS if there is a context."""
        self._runner = web.ServerRunner(
            _Server(self._answer, access_log=None), shutdown_timeout=_STOP_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, reuse_port=True, ssl_context=tls)
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
        name, slash, check = request.path.removeprefix("/").partition("/")
        health = self._health.get(name)
        if health is None and (name, slash) != (_METRICS, ""):
            return _not_found()
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET,HEAD"})
        if health is None:
            return await self._metrics.answer(request)
        if not slash:
            return await health.answer(request)
        return await health.answer_one(check) or _not_found()


def _not_found() -> web.Response:
    return web.Response(status=HTTPStatus.NOT_FOUND)
