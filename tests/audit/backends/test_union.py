from pathlib import Path

import pytest

from proxy.audit.backends.buffer import BackendMode
from proxy.audit.backends.log import LogBackend
from proxy.audit.backends.log_file import AuditFileError, RotatingLogFile
from proxy.audit.backends.union import AuditBackends
from tests.audit.counting import Counts, limits


def backend(path: Path, mode: BackendMode = BackendMode.BATCH) -> LogBackend:
    return LogBackend(lambda: RotatingLogFile(path), limits(mode), Counts())


def backends(log: LogBackend | None) -> AuditBackends:
    return AuditBackends(log, None, when_refused=lambda: None)


def test_where_nobody_takes_events_nobody_is_asked() -> None:
    assert (backends(None).sink, backends(None).backpressure) == (None, None)


@pytest.mark.parametrize("mode", BackendMode)
def test_only_a_blocking_mode_holds_requests_up(tmp_path: Path, mode: BackendMode) -> None:
    log = backend(tmp_path / "audit.log", mode)

    assert (backends(log).backpressure is None) == (mode is BackendMode.BATCH)
    assert backends(log).sink is log.buffer


@pytest.mark.parametrize("mode", BackendMode)
def test_only_a_strict_backend_that_fails_is_a_fault(tmp_path: Path, mode: BackendMode) -> None:
    log = backend(tmp_path / "audit.log", mode)
    healthy = backends(log).health_error()

    log.buffer.mark_failed("write", "No space left on device")

    expected = "log cannot store events" if mode is BackendMode.BLOCKING_STRICT else None
    assert (healthy, backends(log).health_error()) == (None, expected)


async def test_what_cannot_be_opened_is_told_at_the_start_and_can_be_closed(
    tmp_path: Path,
) -> None:
    audit = backends(backend(tmp_path / "missing" / "audit.log"))

    with pytest.raises(AuditFileError):
        await audit.start()
    await audit.close(1)


async def test_events_are_there_when_it_is_closed_and_a_second_time_does_no_harm(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.log"
    audit = backends(backend(path))
    await audit.start()

    audit.write(b"one\n")
    await audit.close(5)
    await audit.close(5)

    assert path.read_bytes() == b"one\n"
