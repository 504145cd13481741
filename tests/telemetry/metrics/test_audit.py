from prometheus_client import CollectorRegistry, generate_latest

from proxy.telemetry.metrics.audit import AuditMetrics


def test_every_fate_of_an_event_has_its_series() -> None:
    registry = CollectorRegistry()
    metrics = AuditMetrics(registry)

    metrics.events_stored("log", 3)
    metrics.events_lost("webhook", "buffer-full", 2)
    metrics.backend_failed("log", "rotate")
    metrics.watch_queue("webhook", lambda: 7)
    metrics.request_rejected()

    page = generate_latest(registry).decode()
    for line in (
        'understudy_audit_events_stored_total{backend="log"} 3.0',
        'understudy_audit_events_lost_total{backend="webhook",reason="buffer-full"} 2.0',
        'understudy_audit_backend_failures_total{backend="log",reason="rotate"} 1.0',
        'understudy_audit_events_queued{backend="webhook"} 7.0',
        "understudy_audit_requests_rejected_total 1.0",
    ):
        assert line in page


def test_a_backend_shows_that_it_has_lost_nothing() -> None:
    """Or its first loss would be no increase of anything."""
    registry = CollectorRegistry()

    AuditMetrics(registry).watch_queue("log", lambda: 0)

    page = generate_latest(registry).decode()
    for reason in ("buffer-full", "refused", "shutdown"):
        line = f'understudy_audit_events_lost_total{{backend="log",reason="{reason}"}} 0.0'
        assert line in page
