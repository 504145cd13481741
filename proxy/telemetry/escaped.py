"""What nobody caught goes into our log, too, and by its rules: no words of others, one line each.

Otherwise Python and the event loop write it to standard error themselves, with the text of every
exception and the arguments of every callback.
"""

import asyncio
import logging
import sys
import threading
from types import TracebackType
from typing import Any

log = logging.getLogger(__name__)


def log_what_escapes(loop: asyncio.AbstractEventLoop) -> None:
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
