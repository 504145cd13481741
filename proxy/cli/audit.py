"""`understudy audit join`: our audit log and the cluster's as one line per request."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from proxy.audit.join import LOUD, Join, Joined
from proxy.cli.audit_logs import AuditLogs
from proxy.cli.registry import Commands

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
  understudy audit join --ours replica-2.log replica-1.log apiserver-*.log.gz -o json | jq .

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


def register(commands: Commands) -> None:
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
        "--ours",
        type=Path,
        action="append",
        default=[],
        dest="more_ours",
        metavar="FILE",
        help="one more audit log of ours: of another replica, or a rotated one",
    )
    join.add_argument(
        "--our-user",
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
    join.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print every request, and tell by the exit code whether something is badly wrong."""
    logs = AuditLogs([options.ours, *options.more_ours], options.cluster)
    join = Join(
        our_user=options.our_user,
        window_seconds=options.window,
        remembered_ids=_REMEMBERED_IDS,
    )
    tell = _json_line if options.output == "json" else _table_line
    try:
        if options.output == "table":
            print(_row([name for name, _ in _COLUMNS]))
        code = _tell_all(_joined(logs, join), tell, join)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    for name, count in logs.unreadable.items():
        _say(f"{name}: {count} lines are no audit events")
    return code


def _joined(logs: AuditLogs, join: Join) -> Iterator[Joined]:
    for entry in logs.entries():
        yield from join.take(entry.record, entry.moment, is_ours=entry.is_ours)
    yield from join.finish()


def _tell_all(
    requests: Iterator[Joined], tell: Callable[[Joined, str | None], str], join: Join
) -> int:
    total = both = flagged = loud = 0
    for request in requests:
        print(tell(request, join.our_user))
        total += 1
        both += request.ours is not None and request.cluster is not None
        flagged += bool(request.flags)
        loud += not LOUD.isdisjoint(request.flags)
    _say(f"{total} requests, {both} in both logs, {flagged} flagged")
    if join.our_user is None:
        _say("the proxy's own user name is unknown, so what was done in it cannot be told apart")
    else:
        _say(f"the proxy's own user name is {_printable(join.our_user)}")
    if loud:
        _say(
            f"WARNING: {loud} requests reached the API server with the proxy's credential and not "
            "as the identity that our log tells"
        )
    return _EXIT_FLAGGED if loud else 0


def _say(text: str) -> None:
    """Tell something that is no line of the output."""
    print(f"understudy: {text}", file=sys.stderr)


def _json_line(request: Joined, our_user: str | None) -> str:
    ours, cluster = request.ours, request.cluster
    either = ours or cluster
    assert either is not None
    return json.dumps(
        {
            "auditID": either.audit_id,
            "requestReceivedTimestamp": either.received_at,
            "caller": ours.user if ours else None,
            "constraint": _constraint(request),
            "target": either.acting if ours or either.target else None,
            "proxy": cluster.user if cluster else our_user,
            "verb": either.verb,
            "object": either.thing,
            "requestURI": either.uri,
            "code": ours.code if ours else None,
            "clusterCode": cluster.code if cluster else None,
            "clusterTarget": cluster.target if cluster else None,
            "flags": [flag.value for flag in request.flags],
        }
    )


def _table_line(request: Joined, _our_user: str | None) -> str:
    ours, cluster = request.ours, request.cluster
    either = ours or cluster
    assert either is not None
    return _row(
        [
            either.received_at,
            ours.user or "(nobody)" if ours else "?",
            _constraint(request) or "-",
            either.acting if ours or either.target else "?",
            f"{either.verb} {either.thing}",
            _outcome(request),
            either.audit_id,
            ",".join(request.flags),
        ]
    )


def _constraint(request: Joined) -> str | None:
    """Return the verb by which the caller may act as the target; None for oneself."""
    if request.ours is None or request.ours.target is None:
        return None
    return request.ours.constraint or "impersonate"


def _outcome(request: Joined) -> str:
    codes = [side.code for side in (request.ours, request.cluster) if side is not None]
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
