"""Log uncaught exceptions of the main thread, threads, the event loop and destructors.

Each is a single structured line. Exception messages are redacted because they may contain request
data. Otherwise Python and the event loop would write to standard error, with the text of every
exception and the arguments of every callback.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

log = logging.getLogger(__name__)


def install_uncaught_handlers(loop: asyncio.AbstractEventLoop) -> None:
    """Log exceptions that end this process or a thread, or occur in the loop or a destructor."""
    loop.set_exception_handler(_log_loop_error)
    sys.excepthook = _log_main_error
    sys.unraisablehook = lambda found: _log_error(
        "uncaught exception in destructor", found.exc_value
    )
    threading.excepthook = lambda found: _log_error("uncaught exception in thread", found.exc_value)


def _log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # The rest of the context contains callbacks and tasks with their arguments.
    _log_error("uncaught exception in event loop", context.get("exception"))


def _log_main_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        _log_error("uncaught exception in main thread", error)


def _log_error(event: str, error: BaseException | None) -> None:
    log.error(event, exc_info=error)


_OWN_PACKAGE = "proxy."
_CAUSE = "\nwhich was the direct cause of:\n\n"
_CONTEXT = "\nduring handling of which this exception occurred:\n\n"
_MAX_LINKS = 20


def redacted_traceback(error: BaseException) -> str:
    """Return the stacks of an error and of its causes, the oldest first."""
    return "".join(reversed(list(_chain_parts(error)))).rstrip("\n")


def _chain_parts(error: BaseException | None) -> Iterator[str]:
    """Yield the newest error, its relation to the previous one, that one, and so on."""
    for _ in range(_MAX_LINKS):
        if error is None:
            return
        yield _format_error(error)
        older = error.__cause__
        link = _CAUSE
        if older is None and not error.__suppress_context__:
            older, link = error.__context__, _CONTEXT
        if older is not None:
            yield link
        error = older


def _format_error(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__))
    piece = f"{frames}{_type_name(error)}{_safe_message(error)}\n"
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:_MAX_LINKS]:
            piece += "".join(f"  | {line}\n" for line in redacted_traceback(member).splitlines())
    return piece


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _safe_message(error: BaseException) -> str:
    if type(error).__module__.startswith(_OWN_PACKAGE):
        return f": {error}"
    if isinstance(error, OSError) and error.errno is not None:
        # Only the system's error text; the names of files and hosts are omitted.
        return f": [Errno {error.errno}] {error.strerror}"
    return ""
