"""Open files: as many as the clients need, or fewer clients."""

import logging
import resource
from collections.abc import Iterator

import pytest

from proxy.serving.limits.connections import ConnectionLimits, fit_open_files

# Beside clients and what a test reserves.
OTHERS = 128


@pytest.fixture
def ceiling() -> Iterator[int]:
    """A low limit of our own; the old one comes back."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, ceiling))
    yield ceiling
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, ceiling))


def allowed_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def limits(connections: int) -> ConnectionLimits:
    return ConnectionLimits(connections=connections, connections_per_address=connections // 2)


def test_the_limit_is_raised_to_what_is_needed(ceiling: int) -> None:
    fitting = fit_open_files(limits(500), reserved=100)

    assert allowed_files() == 2 * 500 + 100 + OTHERS
    assert fitting == limits(500)


def test_a_limit_that_is_high_enough_stays(ceiling: int) -> None:
    fitting = fit_open_files(limits(100), reserved=100)

    assert allowed_files() == 1024
    assert fitting == limits(100)


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] == resource.RLIM_INFINITY,
    reason="here no number is too high",
)
def test_where_the_system_allows_too_few_fewer_clients_are_accepted(
    ceiling: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        fitting = fit_open_files(limits(ceiling), reserved=100)

    assert allowed_files() == ceiling
    assert 2 * fitting.connections + 100 + OTHERS in (ceiling, ceiling - 1)
    assert fitting.connections_per_address == fitting.connections // 2
    assert [record.message for record in caplog.records] == ["client connections reduced"]


def test_one_client_is_served_whatever_the_reserve_needs(ceiling: int) -> None:
    fitting = fit_open_files(limits(1000), reserved=ceiling)

    assert (fitting.connections, fitting.connections_per_address) == (1, 1)
