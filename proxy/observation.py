"""Who may see us, and what is shown of whom: the parts that the admin port is built from."""

from importlib.metadata import PackageNotFoundError, version

from kubernetes_asyncio.client import ApiClient

from proxy.admin.metrics_guard import MetricsGuard
from proxy.authentication.bearer_token import KubernetesTokenReviewer
from proxy.authorization.access_reviews import KubernetesAccessReviewer
from proxy.serving.carrier import Kind
from proxy.serving.in_flight import InFlight
from proxy.serving.listener import Listener
from proxy.settings.admin import AdminSettings
from proxy.telemetry.serving_metrics import ServingMetrics

try:
    VERSION = version("kube-understudy")
except PackageNotFoundError:  # run from its source
    VERSION = "unknown"


def metrics_guard(settings: AdminSettings, client: ApiClient) -> MetricsGuard | None:
    """Return who decides about scrapers, asking as the reviewer; None if everybody is welcome."""
    if not settings.metrics_need_token:
        return None
    # A scraper's token is one for the API server, as for every other component of a cluster.
    return MetricsGuard(KubernetesTokenReviewer(client), KubernetesAccessReviewer(client))


def watch_clients(metrics: ServingMetrics, listener: Listener, in_flight: InFlight) -> None:
    """Let the metrics show who is being served."""

    def count(kind: Kind) -> int:
        exchanges = (connection.exchange for connection in listener.connections)
        return sum(exchange is not None and exchange.kind is kind for exchange in exchanges)

    metrics.watch_clients(
        lambda: len(listener.connections),
        {
            "read": lambda: in_flight.taken[0],
            "write": lambda: in_flight.taken[1],
            "stream": lambda: count(Kind.STREAM),
            "tunnel": lambda: count(Kind.TUNNEL),
        },
    )
    metrics.watch_handshakes(lambda: listener.handshake_failures)
