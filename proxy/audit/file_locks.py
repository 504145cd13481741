"""Who else uses a file: locks that processes of ours hold while they write to one."""

import fcntl
import os
from pathlib import Path

SHARED = fcntl.LOCK_SH
ALONE = fcntl.LOCK_EX


def lock(descriptor: int, kind: int) -> bool:
    """Lock an open file, or tell that somebody else's lock is in the way; never waits.

    A failed attempt may cost the lock that was held before.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Not every file system knows locks, and a device may not either.
    return True


def is_named(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
