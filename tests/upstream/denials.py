"""Who tells denials about us from others, without anybody to tell about."""

from prometheus_client import CollectorRegistry

from proxy.telemetry.upstream_metrics import UpstreamMetrics
from proxy.upstream.own_denials import OwnDenials
from tests.support.clock import FakeClock


def no_denials() -> OwnDenials:
    return OwnDenials(counter=UpstreamMetrics(CollectorRegistry()), clock=FakeClock())
