"""The admin port as a whole: its pages, its certificate, and when it opens and closes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry

from proxy.admin.certificate import AdminCertificate, AdminFiles, CertificateCounter
from proxy.admin.connections import AdminConnections, AdminLimits, ClosingCounter
from proxy.admin.health import PING, HealthCheck, HealthPage
from proxy.admin.metrics_page import Guard, HealthMetrics, MetricsPage
from proxy.admin.server import AdminServer
from proxy.settings.admin import AdminSettings
from proxy.wire.tasks import Tasks


class AdminCounter(CertificateCounter, ClosingCounter, Protocol):
    """Counts what becomes of the certificate and of connections."""


class HealthChecks(NamedTuple):
    """What /livez and /readyz ask, beside `ping`."""

    live: Sequence[HealthCheck]
    ready: Sequence[HealthCheck]


class AdminSide:
    """What operators and their tools see of us."""

    def __init__(
        self,
        settings: AdminSettings,
        *,
        registry: CollectorRegistry,
        checks: HealthChecks,
        counter: AdminCounter,
        guard: Guard,
        clock: Callable[[], float],
    ) -> None:
        """`guard` tells who decides about scrapers."""
        self._address = settings.address
        self.certificate: AdminCertificate | None = None
        if (files := admin_files(settings)) is not None:
            self.certificate = AdminCertificate(files, counter)
        pages = {
            "livez": HealthPage("livez", [PING, *checks.live]),
            "readyz": HealthPage("readyz", [PING, *checks.ready]),
        }
        HealthMetrics(pages, registry)
        # The API server's own healthz is deprecated. Whoever still asks for ours restarts us for
        # it, more likely than not: so it says what livez says.
        healthz = HealthPage("healthz", [PING, *checks.live])
        self._connections = AdminConnections(admin_limits(settings), counter, clock=clock)
        self._server = AdminServer(
            MetricsPage(registry, guard, clock=clock),
            {**pages, "healthz": healthz},
            self._connections,
        )

    async def start(self, tasks: Tasks, *, refresh_seconds: float) -> None:
        """Listen, if there is an address, and keep the certificate fresh."""
        if self._address is None:
            return
        context = None
        if self.certificate is not None:
            await self.certificate.begin()
            tasks.keep(self.certificate.keep_fresh(refresh_seconds))
            context = self.certificate.context
        await self._server.start(*self._address, tls=context)

    async def look(self, settings: AdminSettings) -> None:
        """Use other limits, and the certificate of other settings; it cannot come or go."""
        self._connections.limits = admin_limits(settings)
        if self.certificate is not None and (files := admin_files(settings)) is not None:
            await self.certificate.look(files)

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.stop()


def admin_limits(settings: AdminSettings) -> AdminLimits:
    """Return what connections are held to."""
    limits = settings.limits
    return AdminLimits(limits.connections, limits.head_timeout_seconds, limits.idle_timeout_seconds)


def admin_files(settings: AdminSettings) -> AdminFiles | None:
    """Return where certificate and key are, if the port has any."""
    if settings.certificate_file is None or settings.key_file is None:
        return None
    return AdminFiles(settings.certificate_file, settings.key_file)
