"""The soft limit on open files is for other programs."""

import resource
from collections.abc import Iterator

import pytest

from proxy.cli.open_files import raise_open_files_limit


@pytest.fixture
def hard_limit() -> Iterator[int]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 256), before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_we_take_as_many_open_files_as_we_may(hard_limit: int) -> None:
    assert raise_open_files_limit() == hard_limit

    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard_limit, hard_limit)


def test_what_is_not_granted_leaves_what_was(
    hard_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    limit = raise_open_files_limit()
    monkeypatch.undo()

    assert limit == soft
