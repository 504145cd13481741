"""CPU time of a process, as the kernel counts it.

CPU time, and not requests per second: on a machine that is shared with client, upstream and
whatever else runs there, only the time a process was really on a CPU says what a request costs it.
"""

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# utime, stime, cutime and cstime are fields 14 to 17; the third is the first after the name.
_FIRST_TIME, _PAST_TIMES = 14 - 3, 18 - 3


def cpu_seconds(pid: int) -> float:
    """Return the seconds that a process, all its threads and its ended children were on a CPU."""
    return cpu_seconds_of(Path(f"/proc/{pid}/stat").read_bytes())


def cpu_seconds_of(stat: bytes) -> float:
    """Read `/proc/PID/stat`. The program's name stands in brackets and may hold anything."""
    fields = stat.rpartition(b")")[2].split()
    return sum(int(ticks) for ticks in fields[_FIRST_TIME:_PAST_TIMES]) / _TICKS_PER_SECOND


def fine_cpu_seconds(pid: int) -> float:
    """Return the same by the process's own clock: no children, but nanoseconds instead of ticks.

    For differences of few microseconds a request, which ticks of 10 ms would hide in a short turn.
    """
    # What clock_getcpuclockid(3) makes of a process id; 2 is the scheduler's clock.
    return time.clock_gettime((~pid << 3) | 2)
