"""Where a program listens is known from the kernel, or is an error."""

import os
import socket
import sys
from pathlib import Path

import pytest

from bench.peers.listening import listening_ports, wait_for_address
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import start_child

LISTENS = """
import socket, sys, time
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
for server in servers:
    print(server.getsockname()[1], file=sys.stderr)
print("all", file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_a_port_is_found_while_its_socket_listens() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    assert port in listening_ports(os.getpid())

    server.close()
    assert port not in listening_ports(os.getpid())


def test_a_connection_is_no_port_to_listen_on() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getsockname()[1] not in listening_ports(os.getpid())


def test_a_process_that_is_gone_listens_nowhere(tmp_path: Path) -> None:
    process = start_child([sys.executable, "-c", ""], log_file=tmp_path / "log")
    process.stop()

    assert listening_ports(process.pid) == set()


def test_an_address_is_that_of_the_program(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_child([sys.executable, "-c", LISTENS, "1"], log_file=log)
    try:
        address = wait_for_address(process)
    finally:
        process.stop()

    assert address == f"127.0.0.1:{log.read_text().split()[0]}"


def test_two_ports_are_one_too_many(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_child([sys.executable, "-c", LISTENS, "2"], log_file=log)
    try:
        while "all" not in log.read_text():
            process.ensure_running()

        with pytest.raises(SandboxError, match="several ports"):
            wait_for_address(process)
    finally:
        process.stop()


def test_a_program_that_ends_tells_its_last_words(tmp_path: Path) -> None:
    code = "import sys; sys.exit('no such thing')"
    process = start_child([sys.executable, "-c", code], log_file=tmp_path / "log")
    try:
        with pytest.raises(SandboxError, match="exited with code 1: no such thing"):
            wait_for_address(process)
    finally:
        process.stop()
