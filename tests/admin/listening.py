"""An admin port without a proxy."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from proxy.admin.connections import AdminConnections, AdminLimits, CloseReason
from proxy.admin.health import HealthHandler
from proxy.admin.metrics_endpoint import MetricsHandler
from proxy.admin.server import AdminServer


class ClosedConnections:
    """Counts by reason."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def admin_connection_closed(self, reason: CloseReason) -> None:
        self.reasons[reason] += 1


def new_server(
    pages: Mapping[str, HealthHandler],
    limits: AdminLimits | None = None,
    *,
    counter: ClosedConnections | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AdminServer:
    connections = AdminConnections(
        limits or AdminLimits(), counter or ClosedConnections(), clock=clock
    )
    return AdminServer(MetricsHandler(CollectorRegistry(), clock=clock), pages, connections)
