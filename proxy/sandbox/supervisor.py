"""Run one program, and end it when whoever started us is gone.

Started by `processes.py` as a script of its own: `supervisor.py GRACE_SECONDS PROGRAM ARGUMENT...`.
Our standard input is a pipe whose other end only the starter holds. It never writes there, so the
pipe becomes readable exactly when the starter closes it or dies, kill -9 included: the kernel
closes it then. An orderly stop takes the same road as a crash, so the road is walked every day.

PR_SET_PDEATHSIG alone would not do: it fires when the *thread* that forked ends, which a worker
thread does long before its process. Here it covers the rest, our own death by kill -9, and is
right because our main thread forks and then lives as long as we do.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Tell the program's process id on standard output, wait for its end, return its code."""
    grace_seconds, program = float(sys.argv[1]), sys.argv[2:]
    try:
        child = subprocess.Popen(  # noqa: S603 - running what we are told to is the purpose
            program,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509 - no second thread exists yet
        )
    except OSError as error:
        print(f"failed {error.strerror}", flush=True)  # noqa: T201 - our starter reads this line
        return 127
    print(f"started {child.pid}", flush=True)  # noqa: T201 - our starter reads this line
    watch = threading.Thread(target=_stop_when_abandoned, args=(child, grace_seconds), daemon=True)
    watch.start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _end_with(supervisor: int) -> Callable[[], None]:
    """Return what the forked child does first: ask for SIGKILL at the supervisor's death."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where loading is still safe

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != supervisor:  # it died before the request took hold
            os._exit(127)

    return before_exec


def _stop_when_abandoned(child: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Wait for the pipe's end, then ask the child to stop, then insist."""
    while os.read(0, 4096):
        pass
    child.terminate()
    time.sleep(grace_seconds)
    child.kill()


if __name__ == "__main__":
    os._exit(main())
