import socket

import pytest

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import LOOPBACK, ReservedPort


def test_a_program_that_shares_ports_serves_on_a_reserved_one() -> None:
    with ReservedPort() as port, socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((LOOPBACK, port.number))
        server.listen()

        with socket.create_connection((LOOPBACK, port.number)) as client:
            accepted, address = server.accept()
            accepted.close()

            assert address == client.getsockname()


def test_a_reserved_port_cannot_be_taken_by_a_stranger() -> None:
    with (
        ReservedPort() as port,
        socket.socket() as stranger,
        pytest.raises(OSError, match="in use"),
    ):
        stranger.bind((LOOPBACK, port.number))


def test_a_port_is_reserved_once_only() -> None:
    with ReservedPort() as port, pytest.raises(SandboxError) as failure:
        ReservedPort(port.number)

    assert str(failure.value) == f"cannot bind 127.0.0.1:{port.number}: Address already in use"


def test_a_released_port_can_be_reserved_again() -> None:
    with ReservedPort() as first:
        number = first.number

    with ReservedPort(number) as second:
        assert second.number == number
