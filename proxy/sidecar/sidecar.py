"""A running sidecar: startup and shutdown of its parts, in order."""

import asyncio
import ipaddress
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from OpenSSL import SSL

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import StatusError
from proxy.core.impersonation.permit import permit_unchecked
from proxy.core.userinfo import UserInfo
from proxy.serving.drain import Drain
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.serving.listener import Listener
from proxy.sidecar.certificate import LOOPBACK_NAMES, load_or_create_certificate, server_context
from proxy.sidecar.handler import ImpersonatingHandler, RequestHeadWriter
from proxy.sidecar.proxy_endpoint import NoCredential, ProxyEndpoint
from proxy.sidecar.service_account_dir import NO_FILES, ServiceAccountDir
from proxy.telemetry.logs import fields
from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.pool import ConnectionPool

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_SWEEPS_PER_CHECK = 10
_CONNECT_SECONDS = 5.0
# Longer than the proxy's own timeout: its error states the cause, which the sidecar does not know.
_RESPONSE_SECONDS = 120.0
# For all clients together. They share one address, because they are on this machine.
_UNFINISHED_HEAD_BYTES = 64 * 1024 * 1024
# Clients wait for the application, not for the sidecar, so watches are closed at once. Requests in
# flight are completed.
_DRAIN_TIMES = DrainTimes(delay_seconds=0.0, watch_window_seconds=0.0, grace_seconds=20.0)


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """Options of a sidecar."""

    impersonated_user: UserInfo
    server: tuple[str, int]
    address: tuple[str, int]
    ca_file: Path | None = None
    certificate_dir: Path | None = None
    """Directory that stores the certificate across restarts; None: a new one at each start."""
    service_account_dir: ServiceAccountDir = NO_FILES


def is_loopback(host: str) -> bool:
    """Return whether only the local machine (or pod) can reach an address.

    A host name returns False: its resolution is configured elsewhere and may change.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def run_sidecar(settings: SidecarOptions) -> AsyncIterator["Sidecar"]:
    """Run a sidecar for the duration of the context."""
    server = await asyncio.to_thread(ProxyEndpoint, settings.server, settings.ca_file)
    names = tuple(dict.fromkeys((*LOOPBACK_NAMES, settings.address[0])))
    certificate = await asyncio.to_thread(
        load_or_create_certificate, names, settings.certificate_dir
    )
    context = await asyncio.to_thread(server_context, certificate.pair)
    sidecar = Sidecar(settings.impersonated_user, server, context)
    try:
        await sidecar.start(settings, ca_pem=certificate.ca_pem)
        yield sidecar
    finally:
        await sidecar.stop()


class Sidecar:
    """The client-facing listener and the connections to the proxy."""

    def __init__(self, wanted_user: UserInfo, server: ProxyEndpoint, context: SSL.Context) -> None:
        clock = asyncio.get_running_loop().time
        no_credential = NoCredential()
        self._server = server
        self._tasks = TaskSet(_report_failure)
        self._pool = ConnectionPool(
            EndpointSet(server, clock),
            connect_timeout_seconds=_CONNECT_SECONDS,
            clock=clock,
            tasks=self._tasks,
        )
        forwarder = Forwarder(
            self._pool,
            no_credential,
            no_credential,
            response_timeout_seconds=_RESPONSE_SECONDS,
            tasks=self._tasks,
            write_head=RequestHeadWriter(server.endpoints[0].address).write,
        )
        self._listener = Listener(
            context=context,
            handler=ImpersonatingHandler(permit_unchecked(wanted_user), forwarder, self._tasks),
            limits=ConnectionLimits(),
            budget=UnauthenticatedMemoryBudget(_UNFINISHED_HEAD_BYTES, 100),
            clock=clock,
        )
        self.drain = Drain(self._listener, _DRAIN_TIMES, clock=clock)
        self.address = ("", 0)

    async def start(self, settings: SidecarOptions, *, ca_pem: bytes) -> None:
        """Start listening, then write the files by which the application trusts the sidecar."""
        # No SO_REUSEPORT: the applications of another sidecar trust another CA, and may impersonate
        # another user.
        self.address = await self._listener.bind(*settings.address, reuse_port=False)
        await self._listener.start_accepting()
        await asyncio.to_thread(settings.service_account_dir.write, ca_pem)
        self._tasks.start_background(self._sweep())
        log.info(
            "sidecar started",
            extra=fields(
                address=f"{self.address[0]}:{self.address[1]}", user=settings.impersonated_user.name
            ),
        )

    async def stop(self) -> None:
        """Close everything, the application's connections first."""
        await self._listener.stop()
        self._pool.close()
        await self._tasks.stop()

    async def _sweep(self) -> None:
        """Close expired, idle and unreachable connections, and reread the CA."""
        for iteration in itertools.count(1):
            await asyncio.sleep(_SWEEP_SECONDS)
            self._listener.close_expired()
            self._pool.close_expired()
            if iteration % _SWEEPS_PER_CHECK == 0:
                self._listener.close_unreachable()
                self._pool.close_unreachable()
                await self._server.reload()


def _report_failure(error: BaseException) -> None:
    if isinstance(error, StatusError):
        return  # The result of the awaited task, not a failure of it.
    log.error("background task failed", exc_info=error)
