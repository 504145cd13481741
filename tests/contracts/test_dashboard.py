"""The Grafana dashboard: what can be said of it without a cluster.

That it refers to series that exist is shown on a running proxy: `tests/e2e/test_observability.py`.
"""

import itertools
import json
import re

import pytest

from bench.dashboard.panels import DASHBOARD, Panel, panels
from tests.support.observability import as_prometheus_reads, expressions

pytestmark = pytest.mark.timeout(1200)  # the first one may have to build Prometheus' parser

DOCUMENT = json.loads(DASHBOARD.read_text())
PANELS = list(panels(DOCUMENT))
SHOWN = [panel for panel in PANELS if panel.kind != "row"]
WIDTH = 24


def cells(panel: Panel) -> set[tuple[int, int]]:
    """Return the places on the grid that a panel takes."""
    place = panel.place
    columns = range(place["x"], place["x"] + place["w"])
    return set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))


def test_every_expression_we_ship_is_one() -> None:
    names, texts = zip(*expressions(), strict=True)

    wrong = {
        f"{name}: {one.error}"
        for name, one in zip(names, as_prometheus_reads(texts), strict=True)
        if one.error
    }

    assert len(texts) > 60
    assert wrong == set()


def test_every_panel_says_what_it_shows() -> None:
    assert [panel.title for panel in SHOWN if not panel.description or not panel.queries] == []
    assert len({panel.title for panel in PANELS}) == len(PANELS)


def test_no_panel_lies_on_another_or_beside_the_grid() -> None:
    taken = [cell for panel in PANELS for cell in cells(panel)]

    assert len(set(taken)) == len(taken)
    assert {x for x, _ in taken} <= set(range(WIDTH))


def test_every_panel_asks_the_chosen_prometheus_about_the_chosen_replicas() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    sources = [
        target["datasource"] for panel in DOCUMENT["panels"] for target in panel.get("targets", [])
    ]
    selectors = [
        part
        for panel in SHOWN
        for query in panel.queries
        for part in re.findall(r"\{[^}]*\}", query.template)
    ]

    assert [source for source in sources if source != chosen] == []
    assert [part for part in selectors if 'job=~"$job", instance=~"$instance"' not in part] == []


def test_panels_have_numbers_of_their_own() -> None:
    numbers = [panel["id"] for panel in DOCUMENT["panels"]]

    assert len(set(numbers)) == len(numbers)
