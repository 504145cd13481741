"""Child processes that never outlive us.

Each program runs under `supervisor.py`, which ends it when our end of a pipe closes: on `stop`,
at a normal exit, and at a kill -9 of ours. That holds from any thread.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proxy.sandbox.errors import SandboxError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
GRACE_SECONDS = 5.0
QUOTED_LOG_LINES = 3


class ChildProcess:
    """One running program. `pid` is the program's own, so signals may be sent to it."""

    def __init__(
        self, supervisor: subprocess.Popen[bytes], *, program: Path, log_file: Path
    ) -> None:
        self._supervisor = supervisor
        self.program = program
        self.log_file = log_file
        self.pid = self._read_pid()

    def ensure_running(self) -> None:
        """Raise SandboxError with the log's last lines if the program has ended."""
        code = self._supervisor.poll()
        if code is not None:
            raise SandboxError(f"{self.program.name} ended with code {code}: {self.last_words()}")

    def wait(self, timeout_seconds: float) -> int | None:
        """Return the exit code (128 + signal for a killed program), or None if still running."""
        try:
            return self._supervisor.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself; nothing happens if it has ended."""
        # The supervisor exits right after the program, so while it lives the pid is the program's
        # or, for that moment, nobody's.
        if self._supervisor.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self) -> None:
        """End the program, TERM first and KILL after a grace, and wait for that."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait()

    def _read_pid(self) -> int:
        """Read the supervisor's only line: the pid, or why there is none."""
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as report:
            outcome, _, detail = report.readline().decode().strip().partition(" ")
        if outcome != "started":
            self.stop()
            raise SandboxError(f"cannot start {self.program}: {detail or self.last_words()}")
        return int(detail)

    def last_words(self) -> str:
        """Return the last lines of the log, for an error message."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return " | ".join(lines[-QUOTED_LOG_LINES:]) or "it said nothing"


def start_child(
    command: Sequence[str | Path],
    *,
    log_file: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> ChildProcess:
    """Start a program that dies with us, its output appended to a file."""
    arguments = [sys.executable, "-I", "-S", SUPERVISOR, str(grace_seconds), *command]
    with log_file.open("ab") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - the caller chooses a program, not a shell line
            [str(argument) for argument in arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=directory,
            # A terminal's Ctrl-C goes to us alone; we then stop our children in their order.
            start_new_session=True,
        )
    return ChildProcess(supervisor, program=Path(command[0]), log_file=log_file)
