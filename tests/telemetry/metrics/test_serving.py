"""What the listening side counts."""

from prometheus_client import CollectorRegistry

from proxy.telemetry.metrics.serving import ServingMetrics


def test_everybody_turned_away_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = ServingMetrics(registry)

    metrics.connections_rejected(3)
    metrics.request_rejected("read")
    metrics.certificates_reloaded(used=True)
    metrics.certificates_reloaded(used=False)
    metrics.certificate_expires(1_800_000_000.0)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("understudy_connections_rejected_total") == 3
    assert value("understudy_requests_rejected_total", kind="read") == 1
    assert value("understudy_requests_rejected_total", kind="write") is None
    assert value("understudy_certificate_reloads_total", outcome="used") == 1
    assert value("understudy_certificate_reloads_total", outcome="refused") == 1
    assert value("understudy_serving_certificate_expiry_seconds") == 1_800_000_000
