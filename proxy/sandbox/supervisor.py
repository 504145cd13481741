"""The supervisor of one program: stops it when the parent process is gone.

`processes.py` starts it as a script: `supervisor.py GRACE_SECONDS PROGRAM ARGUMENT...`. Its
standard input is a pipe whose other end only the parent holds. The parent never writes there, so
the pipe becomes readable exactly when the parent closes it or dies. The kernel closes it even after
kill -9. A normal stop uses the same mechanism as a crash, so every run exercises it.

PR_SET_PDEATHSIG alone is not sufficient: it fires when the *thread* that forked ends, and a worker
thread ends long before its process. Here it covers the remaining case, a kill -9 of the supervisor.
That is correct because the supervisor's main thread forks, and lives as long as the supervisor.
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
    """Print the program's process id, wait for its exit, and return its code."""
    grace_seconds, program = float(sys.argv[1]), sys.argv[2:]
    try:
        child = subprocess.Popen(  # noqa: S603 - running the given program is the purpose
            program,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            preexec_fn=_kill_on_exit_of(os.getpid()),  # noqa: PLW1509 - no second thread exists yet
        )
    except OSError as error:
        print(f"failed {error.strerror}", flush=True)  # noqa: T201 - the parent reads this line
        return 127
    print(f"started {child.pid}", flush=True)  # noqa: T201 - the parent reads this line
    watch = threading.Thread(target=_stop_when_abandoned, args=(child, grace_seconds), daemon=True)
    watch.start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _kill_on_exit_of(supervisor: int) -> Callable[[], None]:
    """Return a function for the forked child that requests SIGKILL at the supervisor's death."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where loading is still safe

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != supervisor:  # it died before prctl took effect
            os._exit(127)

    return before_exec


def _stop_when_abandoned(child: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Wait for the end of the pipe, then terminate the child, then kill it."""
    while os.read(0, 4096):
        pass
    child.terminate()
    time.sleep(grace_seconds)
    child.kill()


if __name__ == "__main__":
    os._exit(main())
