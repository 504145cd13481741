"""`understudy audit join`: our audit log and the cluster's as one line per request."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from proxy.analysis.audit_join.joiner import AuditLogJoiner, JoinedRequest, JoinSummary
from proxy.cli.audit_log_reader import AuditLogReader
from proxy.cli.output import MetricsFileError, write_metrics
from proxy.cli.registry import CommandRegistry

_EXIT_FAILURE = 1
_EXIT_FLAGGED = 3
_EXIT_BROKEN_PIPE = 141
_REMEMBERED_IDS = 1_000_000
_DESCRIPTION = """\
Print one line per request that went through the proxy: caller, constraint, target, action and
outcome, from our audit log and the API server's, joined by their id. Files may be compressed, and -
is standard input. Exit code 3: the cluster was asked with our credential and nobody, or somebody
else, was impersonated.
"""
_EPILOG = """\
examples:
  understudy audit join /var/log/understudy/audit.log /var/log/kubernetes/audit.log
  understudy audit join --proxy-log replica-2.log replica-1.log apiserver-*.log.gz -o json | jq .
  understudy audit join --proxy-user system:serviceaccount:understudy:understudy-forwarder \\
    --metrics /var/lib/node_exporter/understudy.prom ours.log cluster.log >/dev/null

exit codes: 0 joined, 1 cannot, 2 wrong options, 3 joined, and something is badly wrong (see FLAGS),
141 nobody reads the output
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
        description="Work with the audit trails of the proxy and of the cluster behind it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    join = parser.add_subparsers(metavar="COMMAND", required=True).add_parser(
        "join",
        help="join our audit log and the cluster's",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    join.add_argument("ours", type=Path, metavar="OUR.log", help="an audit log of the proxy")
    join.add_argument(
        "cluster",
        type=Path,
        nargs="+",
        metavar="CLUSTER.log",
        help="audit logs of the API servers, rotated ones too, in any order",
    )
    join.add_argument(
        "--proxy-log",
        type=Path,
        action="append",
        default=[],
        dest="more_ours",
        metavar="FILE",
        help="one more audit log of ours: of another replica, or a rotated one",
    )
    join.add_argument(
        "--proxy-user",
        metavar="NAME",
        help="the proxy's own user name at the API server (else found from the first request that "
        "is in both logs)",
    )
    join.add_argument(
        "--window",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long after its end a request is waited for in the other log (60)",
    )
    join.add_argument("-o", "--output", choices=("table", "json"), default="table")
    join.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="also write what was found for Prometheus: a .prom file in the directory that the "
        "node exporter's textfile collector reads; needs --proxy-user",
    )
    join.set_defaults(run=run, fail=join.error)


def run(options: argparse.Namespace) -> int:
    """Print every request, and tell by the exit code whether something is badly wrong."""
    if options.metrics is not None and not options.proxy_user:
        # Where the name is not found out, nothing is flagged, and where somebody has forged it,
        # the wrong things are. People are told; an alert would only keep quiet.
        options.fail("--metrics needs --proxy-user")
    findings = JoinSummary()
    logs = AuditLogReader([options.ours, *options.more_ours], options.cluster)
    join = AuditLogJoiner(
        proxy_user=options.proxy_user,
        window_seconds=options.window,
        remembered_ids=_REMEMBERED_IDS,
    )
    tell = _json_line if options.output == "json" else _table_line
    try:
        if options.output == "table":
            print(_row([name for name, _ in _COLUMNS]))
        for request in _joined(logs, join):
            findings.count(request)
            print(tell(request, join.proxy_user))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    _sum_up(findings, join.proxy_user)
    for name, count in logs.unreadable.items():
        _say(f"{name}: {count} lines are no audit events")
    is_written = options.metrics is None or _is_written(findings, options.metrics)
    if findings.loud:
        return _EXIT_FLAGGED  # matters more than where it could not be told
    return 0 if is_written else _EXIT_FAILURE


def _joined(logs: AuditLogReader, join: AuditLogJoiner) -> Iterator[JoinedRequest]:
    for entry in logs.entries():
        yield from join.add(entry.record, entry.timestamp, is_ours=entry.is_from_proxy)
    yield from join.finish()


def _sum_up(findings: JoinSummary, proxy_user: str | None) -> None:
    _say(
        f"{findings.requests} requests, {findings.in_both} in both logs, {findings.flagged} flagged"
    )
    if proxy_user is None:
        _say("the proxy's own user name is unknown, so what was done in it cannot be told apart")
    else:
        _say(f"the proxy's own user name is {_printable(proxy_user)}")
    if findings.loud:
        _say(
            f"WARNING: {findings.loud} requests reached the API server with the proxy's credential "
            "and not as the identity that our log tells"
        )


def _is_written(findings: JoinSummary, file: Path) -> bool:
    """Write the metrics, and tell whether that could be done; why not is said."""
    try:
        write_metrics(file, findings.page(datetime.now(UTC).timestamp()))
    except MetricsFileError as error:
        _say(str(error))
        return False
    return True


def _say(text: str) -> None:
    """Tell something that is no line of the output."""
    print(f"understudy: {text}", file=sys.stderr)


def _json_line(request: JoinedRequest, proxy_user: str | None) -> str:
    ours, cluster = request.proxy_record, request.cluster_record
    either = ours or cluster
    assert either is not None
    return json.dumps(
        {
            "auditID": either.audit_id,
            "requestReceivedTimestamp": either.received_at,
            "caller": ours.user if ours else None,
            "constraint": _constraint(request),
            "target": either.impersonated_user if ours or either.target else None,
            "proxy": cluster.user if cluster else proxy_user,
            "verb": either.verb,
            "object": either.thing,
            "requestURI": either.uri,
            "code": ours.code if ours else None,
            "clusterCode": cluster.code if cluster else None,
            "clusterTarget": cluster.target if cluster else None,
            "flags": [flag.value for flag in request.flags],
        }
    )


def _table_line(request: JoinedRequest, _proxy_user: str | None) -> str:
    ours, cluster = request.proxy_record, request.cluster_record
    either = ours or cluster
    assert either is not None
    return _row(
        [
            either.received_at,
            ours.user or "(nobody)" if ours else "?",
            _constraint(request) or "-",
            either.impersonated_user if ours or either.target else "?",
            f"{either.verb} {either.thing}",
            _outcome(request),
            either.audit_id,
            ",".join(request.flags),
        ]
    )


def _constraint(request: JoinedRequest) -> str | None:
    """Return the verb by which the caller may act as the target; None for oneself."""
    if request.proxy_record is None or request.proxy_record.target is None:
        return None
    return request.proxy_record.constraint or "impersonate"


def _outcome(request: JoinedRequest) -> str:
    codes = [
        side.code for side in (request.proxy_record, request.cluster_record) if side is not None
    ]
    told = [str(code) for code in dict.fromkeys(codes) if code is not None]
    return "/".join(told) or "-"


def _row(values: list[str]) -> str:
    cells = [
        _printable(value).ljust(width) for value, (_, width) in zip(values, _COLUMNS, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _printable(text: str) -> str:
    """Return a text that can do nothing to a terminal: names are other people's words."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative")
    return seconds
