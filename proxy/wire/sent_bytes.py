"""What a peer has really taken of what was written, as the kernel counts it."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import NamedTuple

# Of Linux's struct tcp_info: how many bytes the peer has acknowledged.
_TCP_INFO = struct.Struct("=120xQ")
_QUEUE = struct.Struct("=i")


class SentBytes(NamedTuple):
    """Bytes acknowledged so far, and bytes that wait here: with the event loop or in the kernel."""

    acknowledged: int
    pending: int


def sent_bytes(transport: asyncio.Transport) -> SentBytes | None:
    """Return what the peer has taken and what it has not; None where nothing can be told."""
    connection = transport.get_extra_info("socket")
    if connection is None or transport.is_closing() or sys.platform != "linux":
        return None
    try:
        report = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        queue = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_QUEUE.size))
    except OSError:
        return None  # not TCP, or gone already
    if len(report) < _TCP_INFO.size:
        return None
    (acknowledged,) = _TCP_INFO.unpack(report)
    (queued,) = _QUEUE.unpack(queue)
    return SentBytes(acknowledged, queued + transport.get_write_buffer_size())
