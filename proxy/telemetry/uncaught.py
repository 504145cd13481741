"""What nobody caught goes into our log, too, and by its rules: no words of others, one line each.

Otherwise Python and the event loop write it to standard error themselves, with the text of every
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
    """Log what ends this process or a thread, and what the loop or a destructor comes across."""
    loop.set_exception_handler(_in_loop)
    sys.excepthook = _in_main
    sys.unraisablehook = lambda found: _tell("error in a destructor", found.exc_value)
    threading.excepthook = lambda found: _tell("error in a thread", found.exc_value)


def _in_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # The rest of the context shows callbacks and tasks with all that they were given.
    _tell("error in the event loop", context.get("exception"))


def _in_main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        _tell("the program failed", error)


def _tell(event: str, error: BaseException | None) -> None:
    log.error(event, exc_info=error)


_OURS = "proxy."
_CAUSE = "\nwhich was the cause of:\n\n"
_CONTEXT = "\nwhile that was handled:\n\n"
_MOST_LINKS = 20


def redacted_traceback(error: BaseException) -> str:
    """Return the stack of an error and of those that led to it, the oldest first."""
    return "".join(reversed(list(_pieces(error)))).rstrip("\n")


def _pieces(error: BaseException | None) -> Iterator[str]:
    """Yield the newest error, how it follows from the one before, that one, and so on."""
    for _ in range(_MOST_LINKS):
        if error is None:
            return
        yield _piece(error)
        older = error.__cause__
        link = _CAUSE
        if older is None and not error.__suppress_context__:
            older, link = error.__context__, _CONTEXT
        if older is not None:
            yield link
        error = older


def _piece(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__))
    piece = f"{frames}{_kind(error)}{_words(error)}\n"
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions[:_MOST_LINKS]:
            piece += "".join(f"  | {line}\n" for line in redacted_traceback(one).splitlines())
    return piece


def _kind(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _words(error: BaseException) -> str:
    if type(error).__module__.startswith(_OURS):
        return f": {error}"
    if isinstance(error, OSError) and error.errno is not None:
        # The system's own words; the names of files and hosts are left out.
        return f": [Errno {error.errno}] {error.strerror}"
    return ""
