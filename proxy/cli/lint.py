"""`understudy lint`: mistakes in RBAC for impersonation, in files or in a cluster."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from proxy.analysis.grant_check import cluster_catalog, cluster_objects
from proxy.analysis.output import (
    Colors,
    colors_for,
    document_text,
    escape_control_characters,
)
from proxy.cli.options.cluster import add_cluster_options, add_output_option, open_selected_cluster
from proxy.cli.registry import CommandRegistry
from proxy.core.errors import OperatorError
from proxy.core.rbac.lint.finding import Finding, ManifestSource, Severity
from proxy.core.rbac.lint.linter import lint

_DESCRIPTION = """\
Find RBAC for impersonation that never matches (a wrong API group, pod/exec, a Role for users,
userextras/*, verbs that no request has) or that matches too much (verbs with a star, legacy
permissions in addition to constrained ones). Objects unrelated to impersonation are ignored.
"""
_EPILOG = """\
  understudy lint manifests/                    every .yaml, .yml and .json below
  understudy grant intent.yaml | understudy lint -
  understudy lint --cluster --context prod      every role and binding of a cluster

exit codes: 0 no finding above severity note, 1 errors or warnings found, or failure, 2 invalid
options
"""
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_SERVICE_ACCOUNTS_PATH = "/api/v1/serviceaccounts"


class LintError(OperatorError):
    """There is no input, or it cannot be read."""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "lint",
        help="find mistakes in RBAC for impersonation",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="file or directory; - is standard input"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="check the roles and bindings of a cluster"
    )
    parser.add_argument("--no-notes", action="store_true", help="omit findings of severity note")
    add_output_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check all input, then print the findings."""
    if options.cluster == bool(options.files):
        raise LintError("specify either files or --cluster")
    if options.cluster:
        findings = asyncio.run(_cluster_findings(options))
    else:
        findings = lint(_sources(options.files))
    if options.no_notes:
        findings = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if options.output == "table":
        _print_findings(findings, colors_for(sys.stdout, os.environ))
    else:
        sys.stdout.write(document_text([_record(finding) for finding in findings], options.output))
    return int(any(finding.severity is not Severity.NOTE for finding in findings))


async def _cluster_findings(options: argparse.Namespace) -> list[Finding]:
    async with open_selected_cluster(options) as cluster:
        objects = await cluster_objects(cluster)
        accounts = await cluster.items(_SERVICE_ACCOUNTS_PATH)
        catalog = await cluster_catalog(cluster)
    objects += [{**account, "kind": "ServiceAccount"} for account in accounts]
    sources = [
        ManifestSource("cluster", number, manifest) for number, manifest in enumerate(objects, 1)
    ]
    return lint(sources, catalog, is_complete=True)


def _sources(files: Sequence[Path]) -> list[ManifestSource]:
    return [source for file in _expanded(files) for source in _documents(file)]


def _expanded(files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(path for path in file.rglob("*") if path.suffix in _SUFFIXES)
        else:
            yield file


def _documents(file: Path) -> list[ManifestSource]:
    try:
        text = sys.stdin.read() if file == Path("-") else file.read_text("utf-8")
        documents = list(yaml.safe_load_all(text))
    except OSError as error:
        raise LintError(f"cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LintError(f"{file} is not YAML{_hint(file)}: {_one_line(error)}") from error
    return [
        ManifestSource(str(file), number, document)
        for number, document in enumerate(documents, 1)
        if isinstance(document, dict)
    ]


def _hint(file: Path) -> str:
    if file.parent.name != "templates":
        return ""
    return " but a template (helm template CHART | understudy lint -)"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _print_findings(findings: Sequence[Finding], colors: Colors) -> None:
    for finding in findings:
        source = finding.source
        paint = colors.faint if finding.severity is Severity.NOTE else colors.bad
        where = f"{source.file}:{source.document}: {_object(source)} {finding.path}"
        head = f"{paint(finding.severity)} {colors.strong(finding.code)}"
        print(
            f"{escape_control_characters(where)}: {head}: {escape_control_characters(finding.why)}"
        )
        print(f"    {escape_control_characters(finding.remedy)}")
    counts = [sum(finding.severity is severity for finding in findings) for severity in Severity]
    summary = ", ".join(
        f"{count} {severity}{'' if count == 1 else 's'}"
        for count, severity in zip(counts, Severity, strict=True)
    )
    print(summary if findings else "no findings")


def _object(source: ManifestSource) -> str:
    where = f"{source.namespace}/" if source.namespace else ""
    return f"{source.kind} {where}{source.name}"


def _record(finding: Finding) -> dict[str, object]:
    source = finding.source
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "file": source.file,
        "document": source.document,
        "kind": source.kind,
        "namespace": source.namespace or None,
        "name": source.name,
        "path": finding.path,
        "why": finding.why,
        "remedy": finding.remedy,
    }
