"""Ports of 127.0.0.1 that nobody can take between choosing and using them."""

import socket
from types import TracebackType
from typing import Self

from proxy.sandbox.errors import SandboxError

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A port held by a bound socket that never listens.

    The program that serves on it binds with SO_REUSEPORT beside ours, which the kernel allows to
    the same user only, and gets every connection, because only listening sockets do. So there is
    no moment in which the port is free, and a restarted program finds its port again.
    """

    def __init__(self, number: int = 0) -> None:
        """Reserve that port, or any free one for 0; raise SandboxError if it is taken."""
        self._socket = socket.socket()
        try:
            self._socket.bind((LOOPBACK, number))
        except OSError as error:
            self._socket.close()
            raise SandboxError(f"cannot have {LOOPBACK}:{number}: {error.strerror}") from error
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
        """Give the port back; call it after the program that served on it has ended."""
        self._socket.close()
