"""Child processes that never outlive this process.

Each program runs under `supervisor.py`, which stops it when this process's end of a pipe closes: on
`stop`, at a normal exit, and when this process is killed. A child may be started by any thread.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.sandbox.errors import SandboxError

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A port held by a bound socket that never listens.

    The program that serves on it binds the same port with SO_REUSEPORT, which the kernel allows to
    the same user only. The program gets every connection, because this socket does not listen. The
    port is therefore never free, and a restarted program gets the same port.
    """

    def __init__(self, number: int = 0) -> None:
        """Reserve this port, or a free one for 0; raise SandboxError if it is in use."""
        self._socket = socket.socket()
        try:
            self._socket.bind((LOOPBACK, number))
        except OSError as error:
            self._socket.close()
            raise SandboxError(f"cannot bind {LOOPBACK}:{number}: {error.strerror}") from error
        # Sharing is allowed only after binding, so that two reservations can never share a port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.number: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the port; call it after the program that serves on it has exited."""
        self._socket.close()


SUPERVISOR = Path(__file__).with_name("supervisor.py")
GRACE_SECONDS = 5.0
QUOTED_LOG_LINES = 3


class ChildProcess:
    """One running program. `pid` is the program's, not the supervisor's."""

    def __init__(
        self, supervisor: subprocess.Popen[bytes], *, program: Path, log_file: Path
    ) -> None:
        self._supervisor = supervisor
        self.program = program
        self.log_file = log_file
        self.pid = self._read_pid()

    def ensure_running(self) -> None:
        """Raise SandboxError with the log's last lines if the program has exited."""
        code = self._supervisor.poll()
        if code is not None:
            raise SandboxError(f"{self.program.name} exited with code {code}: {self.log_tail()}")

    def wait(self, timeout_seconds: float) -> int | None:
        """Return the exit code (128 + signal for a killed program), or None if still running."""
        try:
            return self._supervisor.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program; do nothing if it has exited."""
        # The supervisor exits right after the program. While it runs, the pid is the program's or,
        # for a short time, unused.
        if self._supervisor.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop the program with TERM, after the grace period with KILL, and wait for its exit."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait()

    def _read_pid(self) -> int:
        """Read the supervisor's only line: the pid, or an error."""
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as report:
            outcome, _, detail = report.readline().decode().strip().partition(" ")
        if outcome != "started":
            self.stop()
            raise SandboxError(f"cannot start {self.program}: {detail or self.log_tail()}")
        return int(detail)

    def log_tail(self) -> str:
        """Return the last lines of the log, for an error message."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return " | ".join(lines[-QUOTED_LOG_LINES:]) or "no output"


def start_child(
    command: Sequence[str | Path],
    *,
    log_file: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> ChildProcess:
    """Start a program that stops with this process; append its output to a file."""
    arguments = [sys.executable, "-I", "-S", SUPERVISOR, str(grace_seconds), *command]
    with log_file.open("ab") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - the caller chooses a program, not a shell line
            [str(argument) for argument in arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=directory,
            # A terminal's Ctrl-C reaches this process only, which then stops its children in order.
            start_new_session=True,
        )
    return ChildProcess(supervisor, program=Path(command[0]), log_file=log_file)
