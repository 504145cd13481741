"""The admin port: health and metrics, on a separate port.

On the proxy port every path belongs to the API server. Connections are accepted here and not by
aiohttp, because aiohttp sees a connection only after its TLS handshake. Before that it could
neither be counted nor closed.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CollectorRegistry

from proxy.admin.connections import AdminConnection, AdminConnections, AdminLimits
from proxy.admin.health import PING, HealthCheck, HealthHandler
from proxy.admin.metrics_endpoint import AuthorizerSource, HealthCheckCollector, MetricsHandler
from proxy.admin.tls import AdminCertificate, AdminTLSFiles
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.settings.admin import AdminSettings
from proxy.telemetry.metrics.serving import ServingMetrics


class Pacing:
    """Grants slots in the order of requests, each followed by a pause."""

    def __init__(self) -> None:
        self._is_pausing = False
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    async def wait(self, pause_seconds: float) -> None:
        """Wait for a slot; the next one is granted after the pause."""
        if not self._is_pausing:
            self._pause(pause_seconds)
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((slot, pause_seconds))
        await slot

    def _pause(self, seconds: float) -> None:
        self._is_pausing = True
        asyncio.get_running_loop().call_later(seconds, self._grant_next)

    def _grant_next(self) -> None:
        self._is_pausing = False
        while self._waiting:
            slot, pause_seconds = self._waiting.popleft()
            # A cancelled wait costs no pause: closed connections do not delay open ones.
            if not slot.done():
                slot.set_result(None)
                self._pause(pause_seconds)
                return


log = logging.getLogger(__name__)

_STOP_SECONDS = 1.0
_SWEEP_SECONDS = 1.0
_BACKLOG = 128
_ACCEPT_RETRY_SECONDS = 0.5
_METRICS = "metrics"
# Pacing of this port. A request costs about 0.2 ms, so requests take at most a tenth of the event
# loop. A handshake costs about 1.5 ms with an RSA key. With 64 connections that all wait for a
# slot, a probe waits for about half a second at most.
_REQUEST_PAUSE_SECONDS = 0.002
_CONNECTION_PAUSE_SECONDS = 0.001
_HANDSHAKE_PAUSE_SECONDS = 0.005
# Prometheus and the kubelet send fewer than ten lines, a browser about twenty.
_MAX_HEADER_LINES = 64


class AdminPortError(OperatorError):
    """The admin port cannot listen on its address."""


class _Handler(RequestHandler):
    """Serves the requests of one connection.

    An error response repeats nothing of a request, because scrapers send tokens. No body is
    awaited or decompressed.
    """

    def __init__(
        self, connection: AdminConnection, connections: AdminConnections, http: web.Server
    ):
        super().__init__(
            http,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # the library itself passes None
            lingering_time=0.0,
            auto_decompress=False,
            max_headers=_MAX_HEADER_LINES,
        )
        self._connection = connection
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, which can close the connection from now on."""
        self._connection.transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Release the slot of the connection."""
        self._connection.on_disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count received bytes, valid HTTP or not."""
        super().data_received(data)
        self._connection.on_bytes_received(len(data))

    def begin_request(self) -> None:
        """Start the deadline of a request whose head was read."""
        self._connections.on_request_started(self._connection)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write the response; the connection is idle after it."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._connections.on_request_ended(self._connection)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats the request
    ) -> web.StreamResponse:
        """Respond with the status only."""
        return super().handle_error(request, status, exc, HTTPStatus(status).phrase)


class AdminServer:
    """The HTTP server of the admin port: health without authorization, and metrics."""

    def __init__(
        self,
        metrics: MetricsHandler,
        health: Mapping[str, HealthHandler],
        connections: AdminConnections,
    ) -> None:
        """`health` maps the names of health endpoints, such as readyz, to their handlers."""
        self._metrics = metrics
        self._health = health
        self._connections = connections
        self._pacing = Pacing()
        self._tasks = TaskSet(lambda error: log.error("admin port failed", exc_info=error))
        self._listening: list[socket.socket] = []
        self._http: web.Server | None = None

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Listen, with TLS if there is a context."""
        self._http = web.Server(self._answer)
        try:
            self._listening = await _listening_sockets(host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise AdminPortError(f"cannot listen on {host}:{port}: {reason}") from error
        for listening in self._listening:
            self._tasks.start_background(self._accept(listening, self._http, tls))
        self._tasks.start_background(self._close_late())

    async def stop(self) -> None:
        """Stop listening; requests in flight may end within a timeout."""
        await self._tasks.stop()
        for listening in self._listening:
            listening.close()
        if self._http is not None:
            self._http.pre_shutdown()
            await self._http.shutdown(_STOP_SECONDS)
        self._connections.close_all()

    async def _accept(
        self, listening: socket.socket, http: web.Server, tls: ssl.SSLContext | None
    ) -> None:
        """Accept connections one by one, so that data connections are served in between."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # The client disconnected before it was accepted.
            except OSError as error:
                # No file descriptor is left, which the connection limits should prevent. Pending
                # connections stay in the kernel's backlog, and this loop must not spin.
                log.warning("admin connection not accepted", exc_info=error)
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            connection = self._connections.accept(accepted, address[0])
            connection.opening = self._tasks.start(self._open(connection, accepted, http, tls))

    async def _open(
        self,
        connection: AdminConnection,
        accepted: socket.socket,
        http: web.Server,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Pass a connection to its handler, after its slot and its TLS handshake."""
        loop = asyncio.get_running_loop()
        pause = _CONNECTION_PAUSE_SECONDS if tls is None else _HANDSHAKE_PAUSE_SECONDS
        try:
            await self._pacing.wait(pause)
            await loop.connect_accepted_socket(
                lambda: _Handler(connection, self._connections, http), accepted, ssl=tls
            )
        except OSError:
            pass  # The client disconnected, or its handshake is invalid.
        finally:
            if connection.transport is None:
                accepted.close()
                connection.on_disconnect()

    async def _close_late(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._connections.close_late()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = request.protocol
        assert isinstance(handler, _Handler)
        handler.begin_request()
        await self._pacing.wait(_REQUEST_PAUSE_SECONDS)
        name, slash, check = request.path.removeprefix("/").partition("/")
        health = self._health.get(name)
        if health is None and (name, slash) != (_METRICS, ""):
            return _not_found()
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET,HEAD"})
        if health is None:
            return await self._metrics.handle(request)
        if not slash:
            return await health.handle(request)
        return await health.handle_single(check) or _not_found()


def _not_found() -> web.Response:
    return web.Response(status=HTTPStatus.NOT_FOUND)


async def _listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of the host."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with contextlib.ExitStack() as opened:
        listening = [
            opened.enter_context(
                socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=True)
            )
            for family, address in dict.fromkeys((info[0], info[4]) for info in found)
        ]
        for listener in listening:
            listener.settimeout(0)
        opened.pop_all()
    return listening


class HealthChecks(NamedTuple):
    """The checks of /livez and /readyz, besides `ping`."""

    live: Sequence[HealthCheck]
    ready: Sequence[HealthCheck]


class AdminPort:
    """The admin port with its endpoints, connections and certificate."""

    def __init__(
        self,
        settings: AdminSettings,
        *,
        registry: CollectorRegistry,
        checks: HealthChecks,
        counter: ServingMetrics,
        guard: AuthorizerSource,
        clock: Callable[[], float],
    ) -> None:
        """`guard` returns the current authorizer of scrapers."""
        self._address = settings.address
        self.certificate: AdminCertificate | None = None
        if (files := admin_files(settings)) is not None:
            self.certificate = AdminCertificate(files, counter)
        pages = {
            "livez": HealthHandler("livez", [PING, *checks.live]),
            "readyz": HealthHandler("readyz", [PING, *checks.ready]),
        }
        HealthCheckCollector(pages, registry)
        # kube-apiserver's healthz is deprecated. A tool that still uses it most likely restarts the
        # process on failure, so it has the checks of livez.
        healthz = HealthHandler("healthz", [PING, *checks.live])
        self._connections = AdminConnections(admin_limits(settings), counter, clock=clock)
        self._server = AdminServer(
            MetricsHandler(registry, guard, clock=clock),
            {**pages, "healthz": healthz},
            self._connections,
        )

    async def start(self, tasks: TaskSet, *, refresh_seconds: float) -> None:
        """Listen, if there is an address, and reload the certificate periodically."""
        if self._address is None:
            return
        context = None
        if self.certificate is not None:
            await self.certificate.load()
            tasks.start_background(self.certificate.run(refresh_seconds, tasks))
            context = self.certificate.context
        await self._server.start(*self._address, tls=context)

    async def apply_settings(self, settings: AdminSettings) -> None:
        """Apply new limits and reload the certificate; TLS cannot be switched on or off."""
        self._connections.limits = admin_limits(settings)
        if self.certificate is not None and (files := admin_files(settings)) is not None:
            await self.certificate.reload(files)

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.stop()


def admin_limits(settings: AdminSettings) -> AdminLimits:
    """Return the limits of connections."""
    limits = settings.limits
    return AdminLimits(limits.connections, limits.head_timeout_seconds, limits.idle_timeout_seconds)


def admin_files(settings: AdminSettings) -> AdminTLSFiles | None:
    """Return the certificate and key files, if the port has TLS."""
    if settings.certificate_file is None or settings.key_file is None:
        return None
    return AdminTLSFiles(settings.certificate_file, settings.key_file)
