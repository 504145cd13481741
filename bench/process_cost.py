"""CPU time and memory of a process and its children, as the kernel counts them.

CPU time is used instead of requests per second. The machine is shared with the client, the upstream
and other load, so only the CPU time of the process shows the cost of a request.
"""

import os
import time
from pathlib import Path

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024
# The kernel's ID for the clock of a whole process, as clock_getcpuclockid(3) builds it: all threads
# including ended ones, in nanoseconds. /proc/PID/stat has a resolution of 10 ms, which is too
# coarse for a turn of half a second.
_WHOLE_PROCESS = 2


def cpu_seconds(pid: int) -> float:
    """Return the seconds that a process, its threads and its running children were on a CPU."""
    return sum(time.clock_gettime(_clock(member)) for member in family(pid))


def _clock(pid: int) -> int:
    return (~pid << 3) | _WHOLE_PROCESS


def rss_kib(pid: int) -> float:
    """Return the resident memory of a process and its children."""
    return sum(_resident_pages(member) for member in family(pid)) * _PAGE_KIB


def _resident_pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for member in found:
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found
