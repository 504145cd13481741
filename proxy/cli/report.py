"""`understudy report`: impersonation found in audit logs, and what to grant instead of legacy."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson

from proxy.analysis.output import (
    OUTPUTS,
    colors_for,
    escape_control_characters,
    stream_document,
    stream_manifests,
)
from proxy.analysis.usage.collector import UsageCollector, UsageLimits
from proxy.analysis.usage.grants import Granted
from proxy.analysis.usage.report import (
    UsageReport,
    impersonator_document,
    report_head,
    report_texts,
)
from proxy.cli.audit_log_reader import open_log, read_lines
from proxy.cli.output import ProgressBar
from proxy.cli.registry import CommandRegistry
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.rbac.grants import GrantObject

_EXIT_BROKEN_PIPE = 141
_LINES_PER_UPDATE = 2000
_MAX_REPORTED = 5
# Most events of a cluster have no impersonated user and are not parsed.
_IMPERSONATION_KEY = b'"impersonatedUser"'
_DESCRIPTION = """\
Read audit logs of the proxy or of kube-apiserver (any version), and report for each impersonator:
the impersonated users, verbs and resources, by legacy impersonation (the unrestricted verb
impersonate) or by a constrained mode; the RBAC that keeps all of it working without legacy; and the
requests that no grant keeps working. Logs may be large, compressed and in any order: memory use is
bounded.
"""
_EPILOG = """\
examples:
  understudy report audit.log audit-*.log.gz
  understudy report --grant-only audit.log | kubectl apply -f -
  understudy report --cluster audit.log
  kubectl logs deploy/understudy -c audit | understudy report -o json -

Grants contain no object names, and no requests that were forbidden for the impersonated user.
The cluster's log records requests through the proxy under the proxy's user name. For these, pass
the proxy's log, and exclude the proxy's user name with --except.

exit codes: 0 reported, 1 error, 2 invalid options, 141 output pipe closed
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "report",
        help="report impersonation found in audit logs, and what to grant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs", type=Path, nargs="+", metavar="AUDIT.log", help="audit log; - is standard input"
    )
    parser.add_argument(
        "--impersonator",
        action="append",
        default=[],
        metavar="USER",
        help="report only this impersonator; may be repeated",
    )
    parser.add_argument(
        "--except",
        action="append",
        default=[],
        dest="excluded",
        metavar="USER",
        help="exclude this impersonator; may be repeated",
    )
    limits = UsageLimits()
    parser.add_argument(
        "--namespaces",
        type=_parse_positive,
        default=limits.namespaces,
        metavar="N",
        help="grant an action cluster-wide if it was used in more namespaces than this; default: "
        f"{limits.namespaces}",
    )
    parser.add_argument(
        "--most",
        type=_parse_positive,
        default=limits.entries,
        metavar="N",
        help="maximum number of distinct impersonators, users and actions, about 2 kB each; "
        f"default: {limits.entries}; further ones are counted, but not granted",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0])
    parser.add_argument(
        "--grant-only", action="store_true", help="print only the manifests to apply"
    )
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--cluster",
        action="store_true",
        help="query existing grants, and report and grant only what is missing",
    )
    group.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig file; default: as for kubectl"
    )
    group.add_argument(
        "--context",
        default="",
        metavar="NAME",
        help="context of the kubeconfig; default: the current one",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read all logs, query the cluster if requested, then print the report."""
    report = _read(options)
    if options.cluster:
        report = replace(report, granted=_granted(report, options))
    try:
        for text in _texts(report, options):
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return 0


def _granted(report: UsageReport, options: argparse.Namespace) -> Granted:
    # Imported here: the client libraries load slowly, and only --cluster needs them.
    from proxy.analysis.usage.grants import existing_grants  # noqa: PLC0415
    from proxy.cli.options.cluster import open_selected_cluster  # noqa: PLC0415

    async def query() -> Granted:
        async with open_selected_cluster(options) as cluster:
            return await existing_grants(cluster, report.usage)

    return asyncio.run(query())


def _texts(report: UsageReport, options: argparse.Namespace) -> Iterator[str]:
    if options.grant_only:
        return stream_manifests(_grants(report), options.output)
    if options.output == "table":
        return report_texts(report, colors_for(sys.stdout, os.environ))
    documents = (impersonator_document(*outlook) for outlook in report.plans())
    return stream_document(report_head(report), "impersonators", documents, options.output)


def _grants(report: UsageReport) -> Iterator[GrantObject]:
    """Yield the objects to apply; print on standard error what no grant covers."""
    for name, usage, outlook in report.plans():
        yield from outlook.grants
        for broken in outlook.broken[:_MAX_REPORTED]:
            _print_message(
                f"no grant for {escape_control_characters(name)}: "
                f"{escape_control_characters(broken.what)}: {broken.reason}"
            )
        if len(outlook.broken) > _MAX_REPORTED:
            _print_message(
                f"no grant for {escape_control_characters(name)}: "
                f"{len(outlook.broken) - _MAX_REPORTED} more"
            )
        if usage.over_limit:
            _print_message(
                f"no grant for {escape_control_characters(name)}: "
                f"{usage.over_limit} requests beyond --most"
            )


def _read(options: argparse.Namespace) -> UsageReport:
    reading = _LogPass(options)
    progress = ProgressBar(sys.stderr, _total_bytes(options.logs), time.monotonic)
    try:
        for path in options.logs:
            reading.read(path, progress)
    finally:
        progress.close()
    return UsageReport(reading.usage, reading.lines, reading.unreadable)


class _LogPass:
    """One pass over all logs."""

    def __init__(self, options: argparse.Namespace) -> None:
        limits = UsageLimits(entries=options.most, namespaces=options.namespaces)
        self.usage = UsageCollector(
            limits, only=frozenset(options.impersonator), excluded=frozenset(options.excluded)
        )
        self.lines = 0
        self.unreadable = 0

    def read(self, path: Path, progress: ProgressBar) -> None:
        """Read one log to its end."""
        with open_log(path) as file:
            for line in read_lines(file, path):
                self.lines += 1
                if self.lines % _LINES_PER_UPDATE == 0:
                    progress.update(file, self.lines)
                if _IMPERSONATION_KEY in line:
                    self._add(line)
                elif not line.startswith(b"{"):
                    self.unreadable += bool(line.strip())
            progress.finish_file(file)

    def _add(self, line: bytes) -> None:
        try:
            self.usage.add(orjson.loads(line))
        except (orjson.JSONDecodeError, InvalidAuditEvent):
            self.unreadable += 1


def _total_bytes(logs: list[Path]) -> int | None:
    """Return the total size of all files; None if it is unknown."""
    try:
        return sum(path.stat().st_size for path in logs if path.is_file() or str(path) != "-")
    except OSError:
        return None  # Opening the file reports the error.


def _parse_positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _print_message(text: str) -> None:
    print(f"understudy: {text}", file=sys.stderr)
