"""A network namespace with an address that is not loopback.

    with NetworkNamespace() as namespace:
        server = namespace.run(start_server)          # listens inside

kube-apiserver refuses to proxy to a loopback address. Inside the namespace `ADDRESS` is an address
like any other, and no packet leaves the machine. Sockets, threads and processes that are made
within `run` belong to the namespace for as long as they live.

It needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and nothing else: no program, no module of the
kernel that a container lacks.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

ADDRESS = "10.64.0.1"

_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
_IFF_UP = 1
_LOOPBACK_DEVICE = b"lo"
_ALIAS = b"lo:1"

P = ParamSpec("P")
T = TypeVar("T")


class NamespaceUnavailable(Exception):
    """This machine does not let us make a network namespace."""


class NetworkNamespace:
    """A namespace that lasts as long as the context, and one thread that lives in it."""

    def __init__(self) -> None:
        # A namespace belongs to a thread. Only this one enters it, so all other tests stay outside.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network-namespace")

    def __enter__(self) -> Self:
        try:
            self.run(_enter_new_namespace)
        except PermissionError as error:
            self._thread.shutdown()
            raise NamespaceUnavailable(
                f"no network namespace can be made (root is needed): {error}"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.shutdown()

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function inside the namespace, and return or raise what it does."""
        return self._thread.submit(function, *args, **kwargs).result()


def _enter_new_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        # With this the kernel gives the device 127.0.0.1, too.
        flags = struct.pack("16sH22x", _LOOPBACK_DEVICE, _IFF_UP)
        fcntl.ioctl(control, _SIOCSIFFLAGS, flags)
        fcntl.ioctl(control, _SIOCSIFADDR, _address_request(ADDRESS))
        fcntl.ioctl(control, _SIOCSIFNETMASK, _address_request("255.255.255.255"))


def _address_request(address: str) -> bytes:
    """Return a `struct ifreq` that carries an IPv4 address."""
    return struct.pack("16sHH4s16x", _ALIAS, socket.AF_INET, 0, socket.inet_aton(address))
