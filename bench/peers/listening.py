"""The listening port of a program that was started with any free port.

Most programs do not report it, and a port that is chosen beforehand may be taken by another program
meanwhile. So it is read from the kernel's tables.
"""

import time
from contextlib import suppress
from pathlib import Path

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import LOOPBACK, ChildProcess

_START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LISTENING = "0A"
_SOCKET = "socket:["


def wait_for_address(process: ChildProcess) -> str:
    """Return host and port of a program with one TCP port; SandboxError if it has none in time."""
    deadline = time.monotonic() + _START_SECONDS
    while not (ports := listening_ports(process.pid)):
        process.ensure_running()
        if time.monotonic() > deadline:
            raise SandboxError(f"{process.program.name} does not listen: {process.log_tail()}")
        time.sleep(_POLL_SECONDS)
    if len(ports) > 1:
        raise SandboxError(f"{process.program.name} listens on several ports: {sorted(ports)}")
    return f"{LOOPBACK}:{ports.pop()}"


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports that a process listens on; none if there is no such process."""
    try:
        sockets = _sockets(pid)
        table = Path(f"/proc/{pid}/net/tcp").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    # The columns: number, local address, remote address, state, ..., the socket's inode.
    rows = [line.split() for line in table.splitlines()[1:]]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENING and row[9] in sockets
    }


def _sockets(pid: int) -> set[str]:
    found: set[str] = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        # A file that is closed meanwhile was not the listening socket.
        with suppress(FileNotFoundError):
            target = str(file.readlink())
            if target.startswith(_SOCKET):
                found.add(target.removeprefix(_SOCKET).removesuffix("]"))
    return found
