"""Errors in the log: where they came from, and nothing of what they were about."""

import asyncio
import errno
import os

import pytest

from proxy.core.errors import UpstreamUnavailable
from proxy.telemetry.uncaught import redacted_traceback

SECRET = "".join(("can", "ary"))


def raised(error: BaseException, *, while_handling: BaseException | None = None) -> BaseException:
    try:
        try:
            if while_handling is not None:
                raise while_handling
        finally:
            raise error
    except BaseException as caught:  # noqa: BLE001 - it is what is asked for
        return caught


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        RuntimeError({"Authorization": SECRET}),
        UnicodeDecodeError("ascii", SECRET.encode(), 0, 1, SECRET),
        OSError(SECRET),
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), SECRET),
        asyncio.LimitOverrunError(SECRET, 1),
        BaseExceptionGroup(SECRET, [ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_words_of_others_are_left_out(error: BaseException) -> None:
    for shown in (
        redacted_traceback(raised(error)),
        redacted_traceback(raised(TypeError(), while_handling=error)),
    ):
        assert SECRET not in shown
        assert type(error).__name__ in shown
        assert "test_uncaught_tracebacks.py" in shown


def test_our_own_words_and_the_system_s_are_told() -> None:
    ours = redacted_traceback(raised(UpstreamUnavailable("access cannot be reviewed")))
    system = redacted_traceback(raised(OSError(errno.EMFILE, os.strerror(errno.EMFILE))))

    assert ours.endswith("proxy.core.errors.UpstreamUnavailable: access cannot be reviewed")
    assert system.endswith(f"OSError: [Errno {errno.EMFILE}] Too many open files")


def test_what_led_to_an_error_is_told_first() -> None:
    error = UpstreamUnavailable("access cannot be reviewed")
    error.__cause__ = raised(KeyError("status"), while_handling=ValueError())

    shown = redacted_traceback(error)

    kinds = [kind for kind in ("ValueError", "KeyError", "UpstreamUnavailable") if kind in shown]
    assert kinds == sorted(kinds, key=shown.rindex)
    assert "during handling of which this exception occurred" in shown
    assert "which was the direct cause of" in shown


def test_a_suppressed_context_stays_out() -> None:
    error = raised(TypeError(), while_handling=ValueError())
    error.__suppress_context__ = True

    assert "ValueError" not in redacted_traceback(error).replace("while_handling", "")


def test_errors_that_lead_to_each_other_come_to_an_end() -> None:
    one, other = ValueError(), KeyError()
    one.__cause__, other.__cause__ = other, one

    assert redacted_traceback(one).count("builtins.") == 20
