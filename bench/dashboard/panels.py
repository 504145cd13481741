"""The dashboard's panels as values: their queries and their presentation."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[2] / "manifests" / "dashboards" / "understudy.json"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel, as stored by Grafana, and its legend format."""

    template: str
    legend: str

    def expression(self, interval: str, step: str = "1m") -> str:
        """Return the expression with all variables replaced: all jobs, all replicas."""
        filled = self.template.replace("$__rate_interval", interval).replace("$__interval", step)
        return filled.replace("$job", ".*").replace("$instance", ".*")

    def label(self, labels: Mapping[str, str]) -> str:
        """Return the legend of a series; a missing label is empty."""
        return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), self.legend).strip()


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel, and its position on a grid of 24 columns."""

    kind: str
    title: str
    description: str
    unit: str
    decimals: int | None
    is_stacked: bool
    place: Mapping[str, int]
    queries: tuple[Query, ...]


def panels(dashboard: Mapping[str, Any]) -> Iterator[Panel]:
    """Yield all panels of a dashboard, the titles of rows included, from top to bottom."""
    for panel in dashboard["panels"]:
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        stacking = defaults.get("custom", {}).get("stacking", {})
        yield Panel(
            kind=panel["type"],
            title=panel["title"],
            description=panel.get("description", ""),
            unit=defaults.get("unit", "short"),
            decimals=defaults.get("decimals"),
            is_stacked=stacking.get("mode") == "normal",
            place=panel["gridPos"],
            queries=tuple(
                Query(target["expr"], target["legendFormat"]) for target in panel.get("targets", [])
            ),
        )
