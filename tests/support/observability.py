"""Every PromQL expression we ship: of alerts, of the dashboard, and in the documents."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.dashboard.panels import DASHBOARD, panels
from bench.dashboard.programs import Expression, promtool, read_expressions
from tests.support.build_once import report_missing

ROOT = Path(__file__).parents[2]
RULES = ROOT / "manifests" / "components" / "prometheus-rule" / "prometheus-rule.yaml"
# What Prometheus adds to whatever it scrapes.
TARGET_LABELS = frozenset({"instance", "job", "namespace", "pod"})
_PROMQL = re.compile(r"^ *```promql\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def groups() -> list[dict[str, Any]]:
    """Return the groups of alert rules."""
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return found


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alert rules by name."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def documented(document: Path) -> list[str]:
    """Return the expressions in a document; a blank line is between two."""
    blocks = "\n\n".join(_PROMQL.findall(document.read_text()))
    return [text.strip() for text in blocks.split("\n\n") if text.strip()]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield where each expression stands, and the expression itself."""
    for name, rule in alerts().items():
        yield name, rule["expr"]
    for panel in panels(json.loads(DASHBOARD.read_text())):
        yield from ((panel.title, query.expression("5m")) for query in panel.queries)
    for document in sorted((ROOT / "docs").glob("*.md")):
        yield from ((document.name, text) for text in documented(document))


def as_prometheus_reads(texts: Sequence[str]) -> list[Expression]:
    """Return what expressions refer to; skip or fail the test if Go cannot build the reader."""
    try:
        return read_expressions(texts)
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"Prometheus' parser cannot be built: {error}")


def run_promtool(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run promtool; skip or fail the test if Go cannot build it."""
    try:
        return promtool(*arguments, directory=directory)
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"promtool cannot be built: {error}")
