"""Documents whose table rows are backed by tests, and the data files that list these tests.

`docs/NAME.md` has the tables. `docs/NAME.tests.yaml` maps the id of each row to its tests.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("conformance", "conformance-5681", "protocol", "threat-model")
TEST_ID = re.compile(r"tests/[\w/]+\.py::\w+")
MODULE = re.compile(r"`(proxy/[\w/]+\.py)`")
ROW = re.compile(r"^\| ([A-Z]\d*-?\d+|\d+(?:\.\d+)+|[a-z]) \| (.*) \|$", re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentReferences:
    """The text of a document, and the tests of each of its rows in the order of the data file."""

    text: str
    tests: Mapping[str, tuple[str, ...]]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Return the id and the cells of every table row that has an id."""
        return ROW.findall(self.text)

    @property
    def named_tests(self) -> set[str]:
        """Return the tests of all rows."""
        return {test for tests in self.tests.values() for test in tests}

    def missing_modules(self) -> list[str]:
        """Return the modules that the text names and that do not exist."""
        return [name for name in MODULE.findall(self.text) if not (ROOT / name).is_file()]

    @property
    def tables(self) -> list[list[str]]:
        """Return the lines of each table: the header, the delimiter and the rows."""
        return [table.splitlines() for table in TABLE.findall(self.text)]

    def rows_without_id(self) -> list[str]:
        """Return the rows without an id of the tables that have a column of ids."""
        tables = [table for table in self.tables if table[0].startswith("| id |")]
        return [row for table in tables for row in table[2:] if not ROW.match(row)]


def read_references(name: str, folder: Path = ROOT / "docs") -> DocumentReferences:
    """Read a document and its data file."""
    tests = parse_tests((folder / f"{name}.tests.yaml").read_text())
    return DocumentReferences((folder / f"{name}.md").read_text(), tests)


def parse_tests(text: str) -> dict[str, tuple[str, ...]]:
    """Parse a data file: row ids with a list of tests each, and no id twice."""
    # Keys are read as text: `4.1` and `n` must not become a number and a boolean.
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(document, yaml.MappingNode):
        raise TypeError("expected a mapping of row ids to tests")
    tests: dict[str, tuple[str, ...]] = {}
    for key, value in document.value:
        if not isinstance(value, yaml.SequenceNode):
            raise TypeError(f"{key.value}: expected a list of tests")
        if key.value in tests:
            raise ValueError(f"{key.value}: id is used twice")
        tests[key.value] = tuple(item.value for item in value.value)
    return tests


_collected: list[frozenset[str]] = []


def remember_collected(tests: Iterable[str]) -> None:
    """Take the ids that a run of all tests has collected, so that nothing collects them again."""
    _collected[:] = [without_parameters(tests)]


def collected_tests() -> frozenset[str]:
    """Return every test that pytest would run, without parameters."""
    if not _collected:
        remember_collected(_collect())
    return _collected[0]


def without_parameters(tests: Iterable[str]) -> frozenset[str]:
    """Return the ids of test functions."""
    return frozenset(test.partition("[")[0] for test in tests)


def _collect() -> list[str]:
    """Let pytest collect all tests in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


def unshown_tests(passed: set[str]) -> list[str]:
    """Return the tests that a document relies on and that have not passed."""
    named = {test for name in DOCUMENTS for test in read_references(name).named_tests}
    return sorted(named - passed)
