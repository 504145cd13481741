"""The programs of the control plane, their version, and the cache directory that holds them.

A lock prevents concurrent builds.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

KUBERNETES_VERSION = "1.37.1"

ETCD = "etcd"
KUBE_APISERVER = "kube-apiserver"
KUBECTL = "kubectl"
PROGRAMS = (ETCD, KUBE_APISERVER, KUBECTL)

# Prints one line of progress.
Announce = Callable[[str], None]

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 30.0


def cache_directory() -> Path:
    """Return `$XDG_CACHE_HOME/understudy/VERSION`, which need not exist yet."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires relative paths to be ignored.
    root = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"
    return root / "understudy" / KUBERNETES_VERSION


@contextmanager
def exclusive(directory: Path, announce: Announce) -> Iterator[None]:
    """Hold the lock of a cache directory, which only one process on this machine may fill.

    The kernel's lock is on a file next to the directory and is released when its holder exits, even
    if that is killed. The file is kept, because removing it would allow two holders of two files.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("ab") as lock:
        if not _try_to_lock(lock):
            announce(f"another process is filling {directory}, waiting for it")
            _wait_for_lock(lock, announce)
        yield


def _wait_for_lock(lock: IO[bytes], announce: Announce) -> None:
    started = last_announced = time.monotonic()
    while not _try_to_lock(lock):
        time.sleep(POLL_SECONDS)
        if time.monotonic() - last_announced >= HEARTBEAT_SECONDS:
            last_announced = time.monotonic()
            announce(f"  still waiting, {last_announced - started:.0f} s")


def _try_to_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
