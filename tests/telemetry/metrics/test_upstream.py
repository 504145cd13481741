"""Metrics of upstream connections and of the proxy's own identities."""

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from proxy.telemetry.metrics.upstream import UpstreamMetrics

EXPIRY = "understudy_proxy_credential_expiry_seconds"
PERMISSIONS = "understudy_proxy_permissions"
RELOADS = "understudy_proxy_credential_reloads_total"


@dataclass
class Pool:
    idle: int
    busy: int


class Scraped:
    """Metrics, and their values as a scrape has them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = UpstreamMetrics(self.registry)

    def watch(self, pool: Pool) -> None:
        self.metrics.watch_connections(lambda: pool.idle, lambda: pool.busy)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def connections(self) -> dict[str, float | None]:
        return {
            state: self.value("understudy_upstream_connections", state=state)
            for state in ("idle", "busy")
        }


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_connection_gauges_are_the_sum_of_all_pools_at_the_scrape(scraped: Scraped) -> None:
    assert scraped.connections() == {"idle": 0, "busy": 0}
    replaced, current = Pool(idle=1, busy=2), Pool(idle=10, busy=20)

    scraped.watch(replaced)
    scraped.watch(current)
    assert scraped.connections() == {"idle": 11, "busy": 22}

    replaced.busy = 0
    assert scraped.connections() == {"idle": 11, "busy": 20}


def test_only_the_last_eight_pools_are_in_the_gauges(scraped: Scraped) -> None:
    for number in range(10):
        scraped.watch(Pool(idle=10**number, busy=1))

    assert scraped.connections() == {"idle": 1_111_111_100, "busy": 8}


def test_opened_connections_are_counted(scraped: Scraped) -> None:
    for _ in range(3):
        scraped.metrics.upstream_connected()

    assert scraped.value("understudy_upstream_connections_opened_total") == 3


def test_failed_connections_are_counted_by_reason_from_zero(scraped: Scraped) -> None:
    scraped.metrics.upstream_connect_failed("tls")
    scraped.metrics.upstream_connect_failed("tls")

    found = {
        reason: scraped.value("understudy_upstream_connect_failures_total", reason=reason)
        for reason in ("timeout", "tls", "refused", "other")
    }
    assert found == {"timeout": 0, "tls": 2, "refused": 0, "other": None}


@pytest.mark.parametrize(("reachable", "expected"), [(True, 1), (False, 0)])
def test_reachable_gauge_is_one_or_zero(
    scraped: Scraped, expected: int, *, reachable: bool
) -> None:
    scraped.metrics.set_upstream_reachable(reachable=not reachable)
    scraped.metrics.set_upstream_reachable(reachable=reachable)

    assert scraped.value("understudy_upstream_reachable") == expected


@pytest.mark.parametrize(("allowed", "expected"), [(True, 1), (False, 0)])
def test_canary_gauge_is_one_if_the_api_server_allows_everything(
    scraped: Scraped, expected: int, *, allowed: bool
) -> None:
    scraped.metrics.canary_completed(allowed=not allowed)
    scraped.metrics.canary_completed(allowed=allowed)

    assert scraped.value("understudy_canary_allowed") == expected


def test_credential_reloads_are_counted_by_identity_and_outcome(scraped: Scraped) -> None:
    scraped.metrics.credential_read("reviewer", used=True)
    scraped.metrics.credential_read("forwarder", used=False)
    scraped.metrics.credential_read("forwarder", used=False)

    assert scraped.value(RELOADS, identity="reviewer", outcome="used") == 1
    assert scraped.value(RELOADS, identity="reviewer", outcome="refused") is None
    assert scraped.value(RELOADS, identity="forwarder", outcome="refused") == 2


def test_permission_findings_are_those_of_the_last_check(scraped: Scraped) -> None:
    scraped.metrics.permissions_checked("shared", missing=5, excessive=6)
    scraped.metrics.permissions_checked("shared", missing=0, excessive=1)

    assert scraped.value(PERMISSIONS, identity="shared", finding="missing") == 0
    assert scraped.value(PERMISSIONS, identity="shared", finding="excessive") == 1


def test_denials_of_the_proxy_are_counted(scraped: Scraped) -> None:
    assert scraped.value("understudy_proxy_permission_denials_total") == 0

    scraped.metrics.proxy_permission_missing()

    assert scraped.value("understudy_proxy_permission_denials_total") == 1


def test_removed_identity_loses_its_gauges_and_keeps_its_counters(scraped: Scraped) -> None:
    for role in ("forwarder", "reviewer"):
        scraped.metrics.credential_read(role, used=True)
        scraped.metrics.credential_expires(role, 1_800_000_000.0)
        scraped.metrics.permissions_checked(role, missing=1, excessive=2)

    scraped.metrics.remove_identity("forwarder")

    assert scraped.value(EXPIRY, identity="forwarder") is None
    for finding in ("missing", "excessive"):
        assert scraped.value(PERMISSIONS, identity="forwarder", finding=finding) is None
    assert scraped.value(RELOADS, identity="forwarder", outcome="used") == 1
    assert scraped.value(EXPIRY, identity="reviewer") == 1_800_000_000
    assert scraped.value(PERMISSIONS, identity="reviewer", finding="excessive") == 2


def test_removal_of_an_identity_without_gauges_changes_nothing(scraped: Scraped) -> None:
    scraped.metrics.remove_identity("forwarder")

    assert scraped.value(EXPIRY, identity="forwarder") is None
