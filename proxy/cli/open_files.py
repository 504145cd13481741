"""How many connections the kernel lets us have."""

import resource
from contextlib import suppress


def raise_open_files_limit() -> int:
    """Take as many open files as we may, and return how many that is.

    Without HTTP/2 every watch is two connections, and the usual soft limit, 1024, is for programs
    that use select(); we do not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems name a hard limit that they then do not grant: the soft one still serves.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft
