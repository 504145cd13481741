"""TCP-level detection of unreachable peers, and progress of sent bytes.

HTTP/1.1 has no pings, so only TCP can detect a dead peer. Keepalive probes an idle connection. It
does not probe one with unacknowledged bytes: the kernel retransmits those for a quarter of an hour
before it gives up.

TCP_USER_TIMEOUT would end that sooner. It would also end a healthy peer that does not read for a
minute. Examples are `kubectl logs | less`, and a container that is slow to read its input. The
periodic sweep therefore calls `is_unreachable`, which distinguishes the two: a slow peer
acknowledges the kernel's probes.
"""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import NamedTuple

_PROBE_IDLE_SECONDS = 30
_PROBE_INTERVAL_SECONDS = 10
_PROBE_COUNT = 3
UNREACHABLE_SECONDS = float(_PROBE_IDLE_SECONDS + _PROBE_INTERVAL_SECONDS * _PROBE_COUNT)

# Fields of the kernel's struct tcp_info: retransmissions of the oldest bytes (tcpi_retransmits),
# and milliseconds since the last acknowledgement of any kind (tcpi_last_ack_recv).
_TCP_INFO = struct.Struct("=2xB53xI")
_MIN_RETRANSMITS = 3


def enable_tcp_keepalive(transport: asyncio.BaseTransport) -> None:
    """Enable keepalive, so that the kernel detects a dead idle peer within about a minute.

    Both event loops disable Nagle's algorithm themselves.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_IDLE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_INTERVAL_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBE_COUNT)


def is_unreachable(
    transport: asyncio.BaseTransport, *, after_seconds: float = UNREACHABLE_SECONDS
) -> bool:
    """Return whether bytes were retransmitted and nothing was received for `after_seconds`."""
    connection = transport.get_extra_info("socket")
    if connection is None or transport.is_closing():
        return False
    try:
        report = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return False  # not TCP, or already closed
    if len(report) < _TCP_INFO.size:
        return False
    retransmits, silent_milliseconds = _TCP_INFO.unpack(report)
    return bool(retransmits >= _MIN_RETRANSMITS and silent_milliseconds >= after_seconds * 1000)


# Field of Linux's struct tcp_info: bytes that the peer has acknowledged (tcpi_bytes_acked).
_TCP_INFO_SENT_BYTES = struct.Struct("=120xQ")
_OUTPUT_QUEUE = struct.Struct("=i")


class SentBytes(NamedTuple):
    """Bytes acknowledged so far, and bytes pending in the event loop or the kernel."""

    acknowledged: int
    pending: int


def sent_bytes(transport: asyncio.Transport) -> SentBytes | None:
    """Return acknowledged and pending bytes; None where the kernel does not report them."""
    connection = transport.get_extra_info("socket")
    if connection is None or transport.is_closing() or sys.platform != "linux":
        return None
    try:
        report = connection.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SENT_BYTES.size
        )
        queue = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_OUTPUT_QUEUE.size))
    except OSError:
        return None  # not TCP, or already closed
    if len(report) < _TCP_INFO_SENT_BYTES.size:
        return None
    (acknowledged,) = _TCP_INFO_SENT_BYTES.unpack(report)
    (queued,) = _OUTPUT_QUEUE.unpack(queue)
    return SentBytes(acknowledged, queued + transport.get_write_buffer_size())
