"""Dead peers: HTTP/1.1 has no pings, so only TCP can tell that nobody is there any more.

An idle connection is probed by TCP's keepalive. One with bytes on the way is not: the kernel
repeats them for a quarter of an hour before it gives up. TCP_USER_TIMEOUT would end that sooner,
but it also ends a peer that is well and merely does not read for a minute: `kubectl logs | less`,
or a container that is slow to take its input. So whoever sweeps asks `is_unreachable` instead,
which tells the silent from the slow: the slow one answers the kernel's probes.
"""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import NamedTuple

_IDLE_SECONDS = 30
_INTERVAL_SECONDS = 10
_PROBES = 3
UNREACHABLE_SECONDS = float(_IDLE_SECONDS + _INTERVAL_SECONDS * _PROBES)

# Of the kernel's struct tcp_info: how often the oldest bytes were repeated in vain, and for how
# many milliseconds no acknowledgement of any kind has come.
_TCP_INFO = struct.Struct("=2xB53xI")
_REPEATS = 3


def enable_tcp_keepalive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel find out within about a minute that the other end of an idle one is gone.

    Both event loops have switched Nagle's algorithm off already.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def is_unreachable(
    transport: asyncio.BaseTransport, *, after_seconds: float = UNREACHABLE_SECONDS
) -> bool:
    """Tell whether bytes were sent again and again and nothing has come back for that long."""
    connection = transport.get_extra_info("socket")
    if connection is None or transport.is_closing():
        return False
    try:
        report = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return False  # not TCP, or gone already
    if len(report) < _TCP_INFO.size:
        return False
    repeats, silent_milliseconds = _TCP_INFO.unpack(report)
    return bool(repeats >= _REPEATS and silent_milliseconds >= after_seconds * 1000)


# Of Linux's struct tcp_info: how many bytes the peer has acknowledged.
_TCP_INFO_SENT_BYTES = struct.Struct("=120xQ")
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
        report = connection.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SENT_BYTES.size
        )
        queue = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_QUEUE.size))
    except OSError:
        return None  # not TCP, or gone already
    if len(report) < _TCP_INFO_SENT_BYTES.size:
        return None
    (acknowledged,) = _TCP_INFO_SENT_BYTES.unpack(report)
    (queued,) = _QUEUE.unpack(queue)
    return SentBytes(acknowledged, queued + transport.get_write_buffer_size())
