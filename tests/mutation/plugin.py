"""A pytest plugin: `-p tests.mutation.plugin --without-guard 7` runs tests without that guard."""

import pytest

from tests.mutation.guards import GUARDS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-guard", type=int, choices=sorted(GUARDS), required=True)


def pytest_configure(config: pytest.Config) -> None:
    GUARDS[config.getoption("--without-guard")].remove()
