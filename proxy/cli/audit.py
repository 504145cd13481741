"""`understudy audit join`: the audit logs of proxy and cluster, as one line per request."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from proxy.analysis.audit_join.joiner import AuditLogJoiner, JoinedRequest, JoinFlag
from proxy.analysis.audit_join.summary import JoinSummary, inconclusive_reason
from proxy.cli.audit_log_reader import AuditLogReader
from proxy.cli.output import MetricsFileError, write_metrics
from proxy.cli.registry import CommandRegistry

_EXIT_FAILURE = 1
_EXIT_FLAGGED = 3
_EXIT_BROKEN_PIPE = 141
_MAX_CACHED_IDS = 1_000_000
_DESCRIPTION = """\
Join the audit logs of the proxy and of the API server by audit ID. Print one line per request that
went through the proxy: caller, constraint, impersonated user (target), action and outcome. Files
may be compressed; - is standard input. Exit code 3: the proxy's credential was used at the API
server without impersonation, or with another user than the proxy recorded. Exit code 1 is
also returned if no conclusion is possible: empty logs, another period, a wrong --proxy-user.
"""
_EPILOG = """\
examples:
  understudy audit join /var/log/understudy/audit.log /var/log/kubernetes/audit.log
  understudy audit join --proxy-log replica-2.log replica-1.log apiserver-*.log.gz -o json | jq .
  understudy audit join --proxy-user system:serviceaccount:understudy:understudy-forwarder \\
    --metrics /var/lib/node_exporter/understudy.prom proxy.log cluster.log >/dev/null

exit codes: 0 joined, 1 error or no conclusion possible, 2 invalid options, 3 joined, and requests
are flagged with a warning (see FLAGS), 141 output pipe closed
"""
_COLUMNS = (
    ("TIME", 27),
    ("CALLER", 28),
    ("CONSTRAINT", 27),
    ("TARGET", 28),
    ("ACTION", 36),
    ("OUTCOME", 9),
    ("AUDIT-ID", 36),
    ("FLAGS", 0),
)


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "audit",
        help="read audit logs",
        description="Work with the audit logs of the proxy and of the cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    join = parser.add_subparsers(metavar="COMMAND", required=True).add_parser(
        "join",
        help="join the audit logs of proxy and cluster",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    join.add_argument("proxy_log", type=Path, metavar="PROXY.log", help="audit log of the proxy")
    join.add_argument(
        "cluster",
        type=Path,
        nargs="+",
        metavar="CLUSTER.log",
        help="audit logs of the API servers, including rotated ones, in any order",
    )
    join.add_argument(
        "--proxy-log",
        type=Path,
        action="append",
        default=[],
        dest="more_proxy_logs",
        metavar="FILE",
        help="another audit log of the proxy: of another replica, or rotated; may be repeated",
    )
    join.add_argument(
        "--proxy-user",
        metavar="NAME",
        help="user name of the proxy at the API server; default: taken from the first request that "
        "is in both logs",
    )
    join.add_argument(
        "--window",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long after its end a request may appear in the other log; default: 60",
    )
    join.add_argument("-o", "--output", choices=("table", "json"), default="table")
    join.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="also write Prometheus metrics to this .prom file, in the directory of the node "
        "exporter's textfile collector; needs --proxy-user",
    )
    join.set_defaults(run=run, fail=join.error)


def run(options: argparse.Namespace) -> int:
    """Print every request; the exit code reports whether one of them is flagged as a warning."""
    if options.metrics is not None and not options.proxy_user:
        # Without a known name nothing is flagged, and with a forged name the wrong requests are. A
        # person reads that on standard error; an alert would stay silent.
        options.fail("--metrics needs --proxy-user")
    findings = JoinSummary()
    logs = AuditLogReader([options.proxy_log, *options.more_proxy_logs], options.cluster)
    join = AuditLogJoiner(
        proxy_user=options.proxy_user,
        window_seconds=options.window,
        max_seen_ids=_MAX_CACHED_IDS,
    )
    format_line = _json_line if options.output == "json" else _table_line
    header = _row([name for name, _ in _COLUMNS]) if options.output == "table" else ""
    try:
        for request in _joined(logs, join):
            if header and not findings.requests:
                print(header)
            findings.count(request)
            print(format_line(request, join.proxy_user))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    _print_summary(findings, join.proxy_user)
    for name, count in logs.unreadable.items():
        _print_message(f"{name}: {count} lines are not audit events")
    return _conclude(findings, inconclusive_reason(join, findings), options.metrics)


def _conclude(findings: JoinSummary, inconclusive: str, metrics: Path | None) -> int:
    """Write the metrics if they are conclusive, and return the exit code."""
    if inconclusive:
        _print_message(f"WARNING: no conclusion is possible: {_printable(inconclusive)}")
    # A flag is conclusive whatever else is missing, but zero flags from incomplete logs are not: an
    # alert must not take them for a good result. The old file becomes stale, which raises another.
    is_written = True
    if metrics is not None and inconclusive and not findings.severe:
        _print_message(f"{metrics} was not updated")
    elif metrics is not None:
        is_written = _write_metrics(findings, metrics)
    if findings.severe:
        return _EXIT_FLAGGED  # takes precedence over a failure to write the metrics
    return 0 if is_written and not inconclusive else _EXIT_FAILURE


def _joined(logs: AuditLogReader, join: AuditLogJoiner) -> Iterator[JoinedRequest]:
    for entry in logs.entries():
        yield from join.add(entry.record, entry.timestamp, is_from_proxy=entry.is_from_proxy)
    yield from join.finish()


def _print_summary(findings: JoinSummary, proxy_user: str | None) -> None:
    _print_message(
        f"{findings.requests} requests, {findings.in_both} in both logs, {findings.flagged} flagged"
    )
    if proxy_user is not None:
        _print_message(f"the proxy's own user name is {_printable(proxy_user)}")
    if findings.severe:
        _print_message(
            f"WARNING: {findings.severe} requests reached the API server with the proxy's "
            "credential but not as the user that the proxy's audit log records"
        )
    if lacking := findings.by_flag[JoinFlag.PROXY_PERMISSION_MISSING]:
        _print_message(
            f"{lacking} requests failed because the proxy lacks a permission to impersonate: see "
            "`proxy permission missing` in its log, and apply manifests/base/forwarder.yaml or "
            "manifests/components/all-extras"
        )


def _write_metrics(findings: JoinSummary, file: Path) -> bool:
    """Write the metrics and return whether that succeeded; print the error if not."""
    try:
        write_metrics(file, findings.metrics_text(datetime.now(UTC).timestamp()))
    except MetricsFileError as error:
        _print_message(str(error))
        return False
    return True


def _print_message(text: str) -> None:
    """Print a message that is not part of the output."""
    print(f"understudy: {text}", file=sys.stderr)


def _json_line(request: JoinedRequest, proxy_user: str | None) -> str:
    by_proxy, by_cluster = request.proxy_record, request.cluster_record
    either = by_proxy or by_cluster
    assert either is not None
    return json.dumps(
        {
            "auditID": either.audit_id,
            "requestReceivedTimestamp": either.received_at,
            "caller": by_proxy.user if by_proxy else None,
            "constraint": _constraint(request),
            "target": either.impersonated_user if by_proxy or either.target else None,
            "proxy": by_cluster.user if by_cluster else proxy_user,
            "verb": either.verb,
            "object": either.object_text,
            "requestURI": either.uri,
            "code": by_proxy.code if by_proxy else None,
            "clusterCode": by_cluster.code if by_cluster else None,
            "clusterTarget": by_cluster.target if by_cluster else None,
            "flags": [flag.value for flag in request.flags],
        }
    )


def _table_line(request: JoinedRequest, _proxy_user: str | None) -> str:
    by_proxy, by_cluster = request.proxy_record, request.cluster_record
    either = by_proxy or by_cluster
    assert either is not None
    return _row(
        [
            either.received_at,
            by_proxy.user or "(unauthenticated)" if by_proxy else "?",
            _constraint(request) or "-",
            either.impersonated_user if by_proxy or either.target else "?",
            f"{either.verb} {either.object_text}",
            _outcome(request),
            either.audit_id,
            ",".join(request.flags),
        ]
    )


def _constraint(request: JoinedRequest) -> str | None:
    """Return the verb that allows the impersonation; None without impersonation."""
    if request.proxy_record is None or request.proxy_record.target is None:
        return None
    return request.proxy_record.constraint or "impersonate"


def _outcome(request: JoinedRequest) -> str:
    codes = [
        side.code for side in (request.proxy_record, request.cluster_record) if side is not None
    ]
    texts = [str(code) for code in dict.fromkeys(codes) if code is not None]
    return "/".join(texts) or "-"


def _row(values: list[str]) -> str:
    cells = [
        _printable(value).ljust(width) for value, (_, width) in zip(values, _COLUMNS, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _printable(text: str) -> str:
    """Return text that is safe to print on a terminal: user names are untrusted input."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 60")
    return seconds
