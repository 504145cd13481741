"""Alert rules: Prometheus takes them, each fires when it should and only then, and is explained.

That they refer to series that exist is shown on a running proxy and a join of logs:
`tests/e2e/test_observability.py`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.doc_references import ROOT
from tests.support.observability import alerts, groups, run_promtool

pytestmark = pytest.mark.timeout(1200)  # the first one may have to build promtool

OPERATIONS = (ROOT / "docs" / "alerts.md").read_text()
ROW = re.compile(r"^\| `(Understudy\w+)` \|", re.MULTILINE)
SEVERITIES = {"critical", "warning", "info"}
LONG = "x3000"
ONE = 'instance="a", job="understudy"'


@dataclass(frozen=True, slots=True)
class Case:
    """Series under which an alert fires and others under which it does not, a value a minute."""

    fires: dict[str, str]
    quiet: dict[str, str]
    after: str = "1h"


def one(name: str, values: str, **labels: str) -> dict[str, str]:
    """Return a series of one replica."""
    further = "".join(f', {key}="{value}"' for key, value in labels.items())
    return {f"{name}{{{ONE}{further}}}": values}


def slow(name: str, *, quick: bool, **labels: str) -> dict[str, str]:
    """Return the buckets of a histogram: all at once, or all after more than four seconds."""
    counts = "0+60" + LONG
    none = counts if quick else "0" + LONG
    return (
        one(f"{name}_bucket", none, le="0.016", **labels)
        | one(f"{name}_bucket", none, le="4", **labels)
        | one(f"{name}_bucket", counts, le="8", **labels)
        | one(f"{name}_bucket", counts, le="+Inf", **labels)
    )


DENIALS = "understudy_impersonation_denials_total"
LOGINS = "understudy_request_errors_total"
REVIEWS = "understudy_access_reviews_total"
TOKENS = "understudy_token_review_duration_seconds_count"
ENDS = "understudy_proxy_credential_expiry_seconds"
LOST = "understudy_audit_events_lost_total"
FLAGGED = "understudy_audit_join_flagged_events"
JOINED = "understudy_audit_join_last_run_timestamp_seconds"
# Time begins at 0 here: what ends at 3700 ends 100 seconds after an hour.
CASES = {
    "UnderstudyCanaryAllowed": Case(
        one("understudy_canary_allowed", "1" + LONG), one("understudy_canary_allowed", "0" + LONG)
    ),
    "UnderstudyCredentialMisused": Case(
        one(FLAGGED, "0x30 1x100", flag="NOT-IMPERSONATED")
        | one(FLAGGED, "0x130", flag="TARGET-DIFFERS"),
        one(FLAGGED, "0" + LONG, flag="NOT-IMPERSONATED")
        | one(FLAGGED, "0" + LONG, flag="TARGET-DIFFERS")
        | one(FLAGGED, "7" + LONG, flag="not-in-cluster"),
    ),
    "UnderstudyProxyPermissionsMissing": Case(
        one("understudy_proxy_permission_denials_total", "0x5 1x10 2x10 3x10 4x100"),
        # Twelve at once, when the API server was restarted.
        one("understudy_proxy_permission_denials_total", "0x30 12x100")
        | one("understudy_proxy_permissions", "0" + LONG, identity="forwarder", finding="missing"),
    ),
    "UnderstudyProxyPermissionsExcessive": Case(
        one("understudy_proxy_permissions", "3" + LONG, identity="forwarder", finding="excessive"),
        one("understudy_proxy_permissions", "0" + LONG, identity="forwarder", finding="excessive"),
    ),
    "UnderstudyLegacyImpersonationUsed": Case(
        one("understudy_legacy_impersonations_total", "0x30 1x100", action="allow"),
        one("understudy_legacy_impersonations_total", "9" + LONG, action="allow"),
    ),
    "UnderstudyDenialsJumped": Case(
        one(DENIALS, "0+6x1440 8640+60x100", mode="user-info"),
        one(DENIALS, "0+60" + LONG, mode="user-info"),
        after="25h",
    ),
    "UnderstudyLoginsRefusedJumped": Case(
        one(LOGINS, "0+6x1440 8640+600x100", reason="unauthorized"),
        one(LOGINS, "0+6x1440 8640+600x100", reason="forbidden"),
        after="25h",
    ),
    "UnderstudyReviewBreakerOpen": Case(
        one("understudy_review_breaker_open", "1" + LONG),
        one("understudy_review_breaker_open", "0" + LONG),
    ),
    "UnderstudyReviewsFail": Case(
        one(REVIEWS, "0+10" + LONG, outcome="error")
        | one(REVIEWS, "0+60" + LONG, outcome="denied"),
        one(REVIEWS, "0+1" + LONG, outcome="error") | one(REVIEWS, "0+60" + LONG, outcome="denied"),
    ),
    "UnderstudyReviewsSlow": Case(
        slow("understudy_access_review_duration_seconds", quick=False, outcome="allowed"),
        slow("understudy_access_review_duration_seconds", quick=True, outcome="allowed"),
    ),
    "UnderstudyTokenReviewsFail": Case(
        one(TOKENS, "0+10" + LONG, outcome="error") | one(TOKENS, "0+60" + LONG, outcome="refused"),
        one(TOKENS, "0" + LONG, outcome="error") | one(TOKENS, "0+60" + LONG, outcome="refused"),
    ),
    "UnderstudyUpstreamUnreachable": Case(
        one("understudy_upstream_reachable", "0" + LONG),
        one("understudy_upstream_reachable", "1" + LONG),
    ),
    "UnderstudyProxyCredentialEnds": Case(
        one(ENDS, "3700" + LONG, identity="forwarder"),
        # Twelve minutes are left, and one that does not tell has no end.
        one(ENDS, "4320" + LONG, identity="forwarder") | one(ENDS, "0" + LONG, identity="reviewer"),
    ),
    "UnderstudyProxyCredentialNotRenewed": Case(
        one(ENDS, "40000" + LONG, identity="forwarder"),
        # Renewed all the time, and never for longer than an hour.
        one(ENDS, "3600+60" + LONG, identity="forwarder"),
        after="3h",
    ),
    "UnderstudyServingCertificateEnds": Case(
        one("understudy_serving_certificate_expiry_seconds", "600000" + LONG),
        one("understudy_serving_certificate_expiry_seconds", "900000" + LONG)
        | one("understudy_admin_certificate_expiry_seconds", "0" + LONG),
        after="2h",
    ),
    "UnderstudyClientCAEnds": Case(
        one("understudy_client_ca_expiry_seconds", "2500000" + LONG, ca="clients"),
        one("understudy_client_ca_expiry_seconds", "3000000" + LONG, ca="clients"),
        after="2h",
    ),
    "UnderstudyReloadRefused": Case(
        one("understudy_certificate_reloads_total", "0x55 1x100", outcome="refused")
        | one("understudy_client_ca_reloads_total", "0x100", outcome="refused"),
        one("understudy_certificate_reloads_total", "0+1" + LONG, outcome="used")
        | one("understudy_client_ca_reloads_total", "7" + LONG, outcome="refused"),
    ),
    "UnderstudyAuditEventsLost": Case(
        one(LOST, "0x55 8x100", backend="log", reason="buffer-full"),
        one(LOST, "8" + LONG, backend="log", reason="buffer-full"),
    ),
    "UnderstudyAuditEventsTruncated": Case(
        one("understudy_audit_events_truncated_total", "0+20" + LONG),
        one("understudy_audit_events_truncated_total", "0+1" + LONG),
    ),
    "UnderstudyAuditBehind": Case(
        one("understudy_audit_events_queued", "4000" + LONG, backend="log"),
        one("understudy_audit_events_queued", "40" + LONG, backend="log"),
    ),
    "UnderstudyAuditRefusesRequests": Case(
        one("understudy_audit_requests_rejected_total", "0+1" + LONG),
        one("understudy_audit_requests_rejected_total", "0" + LONG),
    ),
    "UnderstudyAuditJoinStopped": Case(
        # It ran once, and then its file was gone.
        one(JOINED, "60x600 _x2400"),
        # Once a day.
        one(JOINED, "60x1440 86400x1440"),
        after="27h",
    ),
    "UnderstudyAbsent": Case({}, one("understudy_build_info", "1" + LONG, version="0.1.0")),
    "UnderstudyInternalErrors": Case(
        one(LOGINS, "0x55 1x100", reason="internal"), one(LOGINS, "0+9" + LONG, reason="forbidden")
    ),
    "UnderstudyRejectsRequests": Case(
        one("understudy_connections_rejected_total", "0+60" + LONG),
        one("understudy_connections_rejected_total", "0" + LONG)
        | one("understudy_requests_rejected_total", "0+1" + LONG, kind="read"),
    ),
    "UnderstudyUnauthenticatedFlood": Case(
        one("understudy_unauthenticated_rejected_total", "0+120" + LONG, reason="address")
        | one("understudy_connections_evicted_total", "0" + LONG, reason="total"),
        one("understudy_unauthenticated_rejected_total", "0+6" + LONG, reason="address")
        | one("understudy_connections_evicted_total", "0+6" + LONG, reason="total"),
    ),
    "UnderstudyEventLoopLags": Case(
        slow("understudy_event_loop_lag_seconds", quick=False),
        slow("understudy_event_loop_lag_seconds", quick=True),
    ),
    "UnderstudyEventLoopBlocked": Case(
        one("understudy_event_loop_blocked_total", "0x55 1x100"),
        # It was blocked long ago, and is late now and then without being blocked.
        one("understudy_event_loop_blocked_total", "3" + LONG)
        | slow("understudy_event_loop_lag_seconds", quick=False),
    ),
    "UnderstudyConnectionsNearLimit": Case(
        one("understudy_client_connections", "900" + LONG)
        | one("understudy_client_connections_limit", "1000" + LONG),
        one("understudy_client_connections", "900" + LONG)
        | one("understudy_client_connections_limit", "10000" + LONG),
    ),
    "UnderstudyOpenFiles": Case(
        one("process_open_fds", "900" + LONG)
        | one("process_max_fds", "1000" + LONG)
        | one("understudy_build_info", "1" + LONG, version="0.1.0"),
        # Somebody else's program.
        one("process_open_fds", "900" + LONG) | one("process_max_fds", "1000" + LONG),
    ),
}


def played(name: str, series: dict[str, str], after: str, *, count: int) -> dict[str, object]:
    """Return promtool's form of a case: so many of this alert fire at that time."""
    samples = [{"labels": "{}", "value": count}] if count else []
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
                "eval_time": after,
                "exp_samples": samples,
            }
        ],
    }


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules as a file of Prometheus' own form, in a directory of the test's own."""
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups()}))
    return file


def test_prometheus_takes_the_rules(rules: Path) -> None:
    done = run_promtool(
        "check", "rules", "--lint=all", "--lint-fatal", rules.name, directory=rules.parent
    )

    assert (done.returncode, done.stderr) == (0, "")


def write_case(directory: Path, name: str, case: Case) -> str:
    """Write one alert as the only rule, and what it has to do; return the file's name."""
    rule = {"groups": [{"name": name, "rules": [alerts()[name]]}]}
    (directory / f"{name}.rule.yaml").write_text(yaml.safe_dump(rule))
    tests = [
        played(name, series, case.after, count=count)
        for series, count in ((case.fires, 1), (case.quiet, 0))
    ]
    document = {"rule_files": [f"{name}.rule.yaml"], "evaluation_interval": "1m", "tests": tests}
    (directory / f"{name}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return f"{name}.yaml"


def test_every_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    files = [write_case(tmp_path, name, case) for name, case in CASES.items()]

    done = run_promtool("test", "rules", *files, directory=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_nobody_is_told_of_a_join_that_has_never_run(tmp_path: Path) -> None:
    running = one("understudy_build_info", "1" + LONG, version="0.1.0")
    stale = one(JOINED, "60" + LONG)

    file = write_case(tmp_path, "UnderstudyAuditJoinStopped", Case(stale, running, after="27h"))

    done = run_promtool("test", "rules", file, directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_such_a_case() -> None:
    assert set(CASES) == set(alerts())


def test_every_alert_says_how_bad_it_is_and_what_it_is() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in SEVERITIES, name
        assert rule["annotations"].keys() == {"summary", "description"}, name


def test_every_alert_is_explained_to_operators_and_no_other_is() -> None:
    assert sorted(ROW.findall(OPERATIONS)) == sorted(alerts())
