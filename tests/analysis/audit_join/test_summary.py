from collections.abc import Callable

import pytest

from proxy.analysis.audit_join.joiner import AuditLogJoiner, JoinFlag
from proxy.analysis.audit_join.records import read_record, read_time
from proxy.analysis.audit_join.summary import JoinSummary, inconclusive_reason
from tests.analysis.audit_join.test_joiner import LACKING, PROXY, Logs


def summarize(logs: Logs, proxy_user: str | None) -> tuple[JoinSummary, str]:
    """Return the counts of a join, and why it allows no conclusion."""
    join = AuditLogJoiner(proxy_user=proxy_user, window_seconds=60, max_seen_ids=10)
    summary = JoinSummary()
    for event, is_ours in sorted(logs.entries, key=lambda entry: str(entry[0]["stageTimestamp"])):
        for request in join.add(read_record(event), read_time(event), is_from_proxy=is_ours):
            summary.count(request)
    for request in join.finish():
        summary.count(request)
    return summary, inconclusive_reason(join, summary)


def joined_pair() -> Logs:
    logs = Logs()
    logs.ours("bob", "alice")
    logs.cluster("alice")
    return logs


def only_proxy() -> Logs:
    logs = Logs()
    logs.ours("bob", "alice")
    return logs


def only_cluster() -> Logs:
    logs = Logs()
    logs.cluster("alice")
    return logs


def without_overlap() -> Logs:
    logs = only_proxy()
    logs.cluster("alice", id="another")
    return logs


@pytest.mark.parametrize("proxy_user", [PROXY, None])
def test_join_with_requests_in_both_logs_is_conclusive(proxy_user: str | None) -> None:
    assert summarize(joined_pair(), proxy_user)[1] == ""


@pytest.mark.parametrize(
    ("logs", "proxy_user", "reason"),
    [
        (Logs, PROXY, "the proxy's logs contain no audit event"),
        (only_cluster, PROXY, "the proxy's logs contain no audit event"),
        (only_proxy, PROXY, "the cluster's logs contain no audit event"),
        (joined_pair, "mistyped", "mistyped made no request in the cluster's logs"),
        (without_overlap, PROXY, "1 requests succeeded through the proxy, and none"),
        (without_overlap, None, "1 requests succeeded through the proxy, and none"),
    ],
)
def test_join_of_incomplete_logs_is_inconclusive(
    logs: Callable[[], Logs], proxy_user: str | None, reason: str
) -> None:
    assert summarize(logs(), proxy_user)[1].startswith(reason)


def test_join_without_a_known_proxy_user_is_inconclusive() -> None:
    logs = Logs()
    logs.ours("bob", "alice", code=403)
    logs.cluster(None, user="kubelet", id="another")

    assert summarize(logs, None)[1] == "the proxy's own user name is unknown: use --proxy-user"


def test_missing_permission_is_flagged_and_not_severe() -> None:
    logs = joined_pair()
    logs.ours("bob", "alice", id="lacking", **LACKING)
    logs.cluster(None, id="lacking", code=403)

    summary, reason = summarize(logs, PROXY)

    assert (summary.flagged, summary.severe, reason) == (1, 0, "")
    series = f'flagged_events{{flag="{JoinFlag.PROXY_PERMISSION_MISSING}"}} 1.0'
    assert series in summary.metrics_text(0).decode()
