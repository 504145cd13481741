"""What a process and its children use, as the kernel counts it.

CPU time, and not requests per second: on a machine that is shared with client, upstream and
whatever else runs there, only the time a process was really on a CPU says what a request costs it.
"""

import os
import time
from pathlib import Path

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024
# The kernel's number for the clock of a whole process, as clock_getcpuclockid(3) makes it: all
# threads, those that have ended included, in nanoseconds. /proc/PID/stat has the same in steps of
# 10 ms, which is too coarse for a turn of half a second.
_WHOLE_PROCESS = 2


def cpu_seconds(pid: int) -> float:
    """Return the seconds that a process, its threads and its running children were on a CPU."""
    return sum(time.clock_gettime(_clock(one)) for one in family(pid))


def _clock(pid: int) -> int:
    return (~pid << 3) | _WHOLE_PROCESS


def rss_kib(pid: int) -> float:
    """Return what a process and its children hold in memory now."""
    return sum(_resident_pages(one) for one in family(pid)) * _PAGE_KIB


def _resident_pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found
