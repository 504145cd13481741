"""The performance pages name every row and every bar, and its plan is what its costs give."""

import json
import re

import pytest

from bench.bars import BARS, Bar
from bench.capacity import Costs, Fleet, plan_table
from bench.row import Row
from bench.rows.catalogue import ROWS
from tests.support.doc_references import ROOT

PAGES = ("performance.md", "performance-method.md", "capacity-planning.md")
DOCUMENT = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_told_of(row: Row) -> None:
    assert f"`{row.name}`" in DOCUMENT


def test_every_contestant_is_told_of() -> None:
    names = {entry.name for row in ROWS for entry in row.scene.entries}

    # Who differs from `us` by what it remembers has that in its name.
    usual = {name for name in names if not name.startswith("us knowing")}
    assert {name for name in usual if f"`{name}`" not in DOCUMENT} == set()


@pytest.mark.parametrize("bar", BARS, ids=str)
def test_every_bar_is_told_of(bar: Bar) -> None:
    assert re.search(rf"^\| `{bar.row}` .*{re.escape(f'`{bar}`')}", DOCUMENT, re.MULTILINE)


def test_no_bar_is_told_of_that_is_none() -> None:
    told = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \|", DOCUMENT, re.MULTILINE)

    assert {(row, bar) for row, bar in told} == {(bar.row, str(bar)) for bar in BARS}


def test_the_plan_is_what_its_costs_give() -> None:
    block = re.search(r"^```json\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert block is not None

    assert plan_table(Fleet(), Costs(**json.loads(block[1]))) in DOCUMENT
