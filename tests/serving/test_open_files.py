"""Open files: as many as the clients need, or a warning."""

import logging
import resource
from collections.abc import Iterator

import pytest

from proxy.serving.open_files import allow_open_files


@pytest.fixture
def ceiling() -> Iterator[int]:
    """A low limit of our own; the old one comes back."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, ceiling))
    yield ceiling
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, ceiling))


def allowed_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_the_limit_is_raised_to_what_is_needed(ceiling: int) -> None:
    allow_open_files(500)

    assert allowed_files() == 1256


def test_a_limit_that_is_high_enough_stays(ceiling: int) -> None:
    allow_open_files(100)

    assert allowed_files() == 1024


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] == resource.RLIM_INFINITY,
    reason="here no number is too high",
)
def test_what_the_system_does_not_allow_is_told(
    ceiling: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        allow_open_files(ceiling)

    assert allowed_files() == ceiling
    assert [record.message for record in caplog.records] == ["too few open files allowed"]
