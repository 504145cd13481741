"""The end of a listening socket, without losing who already waits in its queue."""

import os
import socket
from collections.abc import Iterable
from typing import Protocol


class ListeningSocket(Protocol):
    """What either event loop shows of a socket it listens on."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


def take_waiting(listening: Iterable[ListeningSocket]) -> list[socket.socket]:
    """Return every connection that is complete and not yet accepted.

    The kernel resets those when the socket is closed, although another instance may listen on the
    same port: it has chosen ours for them. Close right after this, without a wait in between.
    """
    waiting: list[socket.socket] = []
    for one in listening:
        # The loop's own object cannot accept, on one of the loops; a second descriptor can.
        with socket.socket(fileno=os.dup(one.fileno())) as queue:
            queue.settimeout(0)
            waiting += _accepted(queue)
    return waiting


def _accepted(queue: socket.socket) -> list[socket.socket]:
    accepted: list[socket.socket] = []
    while True:
        try:
            connection, _ = queue.accept()
        except OSError:
            return accepted  # Nobody waits any more, or there is no descriptor left for them.
        connection.settimeout(0)
        accepted.append(connection)
