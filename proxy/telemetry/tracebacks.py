"""Where an error came from, told without the words of others.

What an exception of a library, or of the language itself, says may repeat what somebody sent: a
header, a body, a token. So of those only the kind is told, and where; our own say what we wrote.
"""

import traceback
from collections.abc import Iterator

_OURS = "proxy."
_CAUSE = "\nwhich was the cause of:\n\n"
_CONTEXT = "\nwhile that was handled:\n\n"
_MOST_LINKS = 20


def traceback_text(error: BaseException) -> str:
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
            piece += "".join(f"  | {line}\n" for line in traceback_text(one).splitlines())
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
