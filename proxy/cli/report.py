"""`understudy report`: who impersonates whom, what to grant, and what breaks without legacy."""

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
from proxy.analysis.usage.events import InvalidAuditEvent
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
from proxy.core.rbac.grants import GrantObject

_EXIT_BROKEN_PIPE = 141
_TELL_EVERY = 2000
_MOST_TOLD = 5
# Most events of a cluster are of nobody else than their user: they need not be parsed.
_MARK = b'"impersonatedUser"'
_DESCRIPTION = """\
Read audit logs, of the proxy or of a kube-apiserver (of any version), and tell for each
impersonator: whom it acted as, with which verbs on what, by legacy impersonation (the unrestricted
verb impersonate) or by a constrained mode; the RBAC that keeps all of that working without legacy;
and what no grant keeps working. Logs may be long, compressed and in any order: memory stays small.
"""
_EPILOG = """\
examples:
  understudy report audit.log audit-*.log.gz
  understudy report --grant-only audit.log | kubectl apply -f -
  understudy report --cluster audit.log
  kubectl logs deploy/understudy -c audit | understudy report -o json -

Names of objects are left out of the grants; requests that the target itself was forbidden are, too.
Requests that went through the proxy are in the cluster's log under the proxy's own name: give the
proxy's log for them, and leave its name out of the cluster's with --except.

exit codes: 0 reported, 1 cannot, 2 wrong options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "report",
        help="tell from audit logs who impersonates whom, and what to grant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs", type=Path, nargs="+", metavar="AUDIT.log", help="a log; - is standard input"
    )
    parser.add_argument(
        "--impersonator",
        action="append",
        default=[],
        metavar="USER",
        help="tell of this one only; may be repeated",
    )
    parser.add_argument(
        "--except",
        action="append",
        default=[],
        dest="left_out",
        metavar="USER",
        help="leave this impersonator out; may be repeated",
    )
    limits = UsageLimits()
    parser.add_argument(
        "--namespaces",
        type=_positive,
        default=limits.namespaces,
        metavar="N",
        help="grant an action that was used in more namespaces than this in all of them "
        f"({limits.namespaces})",
    )
    parser.add_argument(
        "--most",
        type=_positive,
        default=limits.entries,
        metavar="N",
        help="keep so many impersonators, identities and actions apart, about 2 kB each "
        f"({limits.entries}); what goes beyond is counted, and not granted",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0])
    parser.add_argument(
        "--grant-only", action="store_true", help="print what to apply, and nothing else"
    )
    group = parser.add_argument_group("which cluster to ask")
    group.add_argument(
        "--cluster",
        action="store_true",
        help="ask what is granted already: tell and grant only what is missing",
    )
    group.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl finds it"
    )
    group.add_argument("--context", default="", metavar="NAME", help="default: the current one")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read all logs, ask the cluster if told to, then print."""
    report = _read(options)
    if options.cluster:
        report = replace(report, granted=_granted(report, options))
    try:
        for text in _texts(report, options):
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return 0


def _granted(report: UsageReport, options: argparse.Namespace) -> Granted:
    # Only who asks a cluster waits for the libraries that do.
    from proxy.analysis.usage.grants import existing_grants  # noqa: PLC0415
    from proxy.cli.options.cluster import chosen_cluster  # noqa: PLC0415

    async def ask() -> Granted:
        async with chosen_cluster(options) as cluster:
            return await existing_grants(cluster, report.usage)

    return asyncio.run(ask())


def _texts(report: UsageReport, options: argparse.Namespace) -> Iterator[str]:
    if options.grant_only:
        return stream_manifests(_grants(report), options.output)
    if options.output == "table":
        return report_texts(report, colors_for(sys.stdout, os.environ))
    told = (impersonator_document(*one) for one in report.outlooks())
    return stream_document(report_head(report), "impersonators", told, options.output)


def _grants(report: UsageReport) -> Iterator[GrantObject]:
    """Give what is to be applied, and tell on standard error what it does not mend."""
    for name, somebody, outlook in report.outlooks():
        yield from outlook.grants
        for broken in outlook.broken[:_MOST_TOLD]:
            _say(
                f"no grant for {escape_control_characters(name)}: "
                f"{escape_control_characters(broken.what)}: {broken.reason}"
            )
        if len(outlook.broken) > _MOST_TOLD:
            _say(
                f"no grant for {escape_control_characters(name)}: "
                f"{len(outlook.broken) - _MOST_TOLD} more"
            )
        if somebody.beyond:
            _say(
                f"no grant for {escape_control_characters(name)}: "
                f"{somebody.beyond} requests beyond --most"
            )


def _read(options: argparse.Namespace) -> UsageReport:
    reading = _Reading(options)
    progress = ProgressBar(sys.stderr, _total_bytes(options.logs), time.monotonic)
    try:
        for path in options.logs:
            reading.read(path, progress)
    finally:
        progress.close()
    return UsageReport(reading.usage, reading.lines, reading.unreadable)


class _Reading:
    """One pass over all logs."""

    def __init__(self, options: argparse.Namespace) -> None:
        limits = UsageLimits(entries=options.most, namespaces=options.namespaces)
        self.usage = UsageCollector(
            limits, only=frozenset(options.impersonator), left_out=frozenset(options.left_out)
        )
        self.lines = 0
        self.unreadable = 0

    def read(self, path: Path, progress: ProgressBar) -> None:
        """Read one log to its end."""
        with open_log(path) as file:
            for line in read_lines(file, path):
                self.lines += 1
                if self.lines % _TELL_EVERY == 0:
                    progress.update(file, self.lines)
                if _MARK in line:
                    self._take(line)
                elif not line.startswith(b"{"):
                    self.unreadable += bool(line.strip())
            progress.finished(file)

    def _take(self, line: bytes) -> None:
        try:
            self.usage.add(orjson.loads(line))
        except (orjson.JSONDecodeError, InvalidAuditEvent):
            self.unreadable += 1


def _total_bytes(logs: list[Path]) -> int | None:
    """Return the size of all files together; None if one of them is none."""
    try:
        return sum(path.stat().st_size for path in logs if path.is_file() or str(path) != "-")
    except OSError:
        return None  # Opening it will tell why.


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _say(text: str) -> None:
    print(f"understudy: {text}", file=sys.stderr)
