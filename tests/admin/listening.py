"""An admin port without a proxy."""

import time
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from proxy.admin.connections import CLOSE_REASONS, AdminConnections, AdminLimits
from proxy.admin.health import HealthHandler
from proxy.admin.metrics_endpoint import MetricsHandler
from proxy.admin.server import AdminServer
from proxy.telemetry.metrics.serving import ServingMetrics


class AdminMetrics:
    """Metrics, and what was counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.counter = ServingMetrics(self._registry)

    @property
    def closed(self) -> dict[str, int]:
        """The connections that a limit closed, by reason."""
        return self._read("connections_closed", "reason", CLOSE_REASONS)

    @property
    def reloads(self) -> dict[str, int]:
        """The reloads of the certificate, by outcome."""
        return self._read("certificate_reloads", "outcome", ("used", "refused"))

    @property
    def expires(self) -> float | None:
        """When the certificate expires."""
        return self._registry.get_sample_value("understudy_admin_certificate_expiry_seconds")

    def _read(self, name: str, label: str, values: Sequence[str]) -> dict[str, int]:
        read = {
            value: self._registry.get_sample_value(f"understudy_admin_{name}_total", {label: value})
            for value in values
        }
        return {value: int(count) for value, count in read.items() if count}


def new_server(
    pages: Mapping[str, HealthHandler],
    limits: AdminLimits | None = None,
    *,
    counter: ServingMetrics | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AdminServer:
    connections = AdminConnections(
        limits or AdminLimits(), counter or AdminMetrics().counter, clock=clock
    )
    return AdminServer(MetricsHandler(CollectorRegistry(), clock=clock), pages, connections)
