"""What streaming must do for a person with kubectl, as checks that work against any server.

Each takes a Kubectl and the name of a pod of the fake kubelet, whose containers run programs of
this machine: the same checks hold against the API server and against the proxy before it.
"""

import fcntl
import hashlib
import os
import random
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from typing_extensions import override

from tests.support.kubectl import Kubectl

MEBIBYTE = 1024 * 1024
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
# A hundred megabytes and more on a busy machine; the test's own timeout is what bounds it.
TRANSFER_SECONDS = 600.0


def check_exec_reports_output_and_exit_code(kubectl: Kubectl, pod: str) -> None:
    script = "echo to-stdout; echo to-stderr >&2; exit 42"

    done = kubectl.run("exec", pod, "--", "sh", "-c", script)

    assert done.stdout == b"to-stdout\n"
    assert done.stderr.startswith(b"to-stderr\n")
    assert done.returncode == 42


def check_exec_carries_standard_input(kubectl: Kubectl, pod: str, size: int) -> None:
    content = _noise(size)

    done = kubectl.run(
        "exec", "-i", pod, "--", "sha256sum", stdin=content, timeout_seconds=TRANSFER_SECONDS
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()


def check_copy_keeps_a_file_both_ways(
    kubectl: Kubectl, pod: str, *, size: int, directory: Path
) -> None:
    there, back = directory / "there", directory / "back"
    there.write_bytes(_noise(size))

    # kubectl tells a local path from a remote one by the colon, so this works for any pod name.
    remote = f"{pod}:in-the-pod"
    sent = kubectl.run("cp", str(there), remote, timeout_seconds=TRANSFER_SECONDS)
    fetched = kubectl.run("cp", remote, str(back), timeout_seconds=TRANSFER_SECONDS)

    assert sent.returncode == 0, sent.stderr
    assert fetched.returncode == 0, fetched.stderr
    assert back.read_bytes() == there.read_bytes()


def check_terminal_follows_its_size(kubectl: Kubectl, pod: str) -> None:
    with _terminal(rows=31, columns=101) as (ours, theirs):
        command = kubectl.command(
            "exec", "-it", pod, "--", "sh", "-c", "while :; do stty size; sleep 0.1; done"
        )
        process = _start_on_terminal(command, kubectl.environment(), theirs)
        try:
            _read_until(ours, b"31 101")  # not the very first line: the size comes after the start
            _resize(ours, rows=53, columns=132)
            _read_until(ours, b"53 132")
            os.write(ours, b"\x03")  # Ctrl-C, for the far terminal to turn into a signal

            assert process.wait(PATIENCE_SECONDS) == 130
        finally:
            process.kill()
            process.wait()


def check_attach_echoes(kubectl: Kubectl, pod: str) -> None:
    done = kubectl.run("attach", "-i", pod, stdin=b"one\ntwo\n")

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b"one\ntwo\n")
    assert kubectl.run("logs", pod).stdout == b"one\ntwo\n"


def check_logs_follow_until_the_container_ends(kubectl: Kubectl, pod: str) -> None:
    _append_to_log(kubectl, pod, "first")

    with kubectl.started("logs", "--follow", pod) as follower:
        assert follower.line() == "first"
        _append_to_log(kubectl, pod, "second")
        assert follower.line() == "second"
        assert kubectl.run("logs", "--tail=1", pod).stdout == b"second\n"
        kubectl.run("exec", pod, "--", "sh", "-c", 'rm "$CONTAINER_LOG"')

        assert follower.process.wait(PATIENCE_SECONDS) == 0


def check_port_forward_serves_requests_at_once(
    kubectl: Kubectl, pod: str, *, requests: int, at_once: int
) -> None:
    paths = [f"/{number}" for number in range(requests)]

    with _web_server(at_once) as port, kubectl.started("port-forward", pod, f":{port}") as forward:
        local = forward.line().removeprefix("Forwarding from ").partition(" -> ")[0]
        with ThreadPoolExecutor(at_once) as pool:
            answers = list(pool.map(lambda path: _fetch(f"http://{local}{path}"), paths))

    assert answers == [_page(path) for path in paths]


def check_a_command_ends_when_its_client_leaves(kubectl: Kubectl, pod: str) -> None:
    # Over WebSocket it must read its input to hear of a client's end: the API server does not look
    # at a silent connection there, and a command that only sleeps would sleep on.
    arguments, program = (("exec", "-i"), "cat") if kubectl.websockets else (("exec",), "sleep 600")
    with kubectl.started(*arguments, pod, "--", "sh", "-c", f"echo $$; exec {program}") as running:
        command = running.line()
        assert is_running(command)

        running.process.kill()

        wait_until(lambda: not is_running(command), "the command runs on without its client")


def is_running(process_id: str) -> bool:
    """Return whether a program of a pod runs: the pod's programs are this machine's.

    A zombie has ended. An orphan stays one until init reaps it, which some inits do late or never.
    """
    try:
        status = Path("/proc", process_id, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(condition: Callable[[], bool], complaint: str) -> None:
    """Poll until the condition holds; fail with the complaint when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(POLL_SECONDS)


def _noise(size: int) -> bytes:
    """Return bytes of every kind, the same in every run."""
    return random.Random(size).randbytes(size)


def _append_to_log(kubectl: Kubectl, pod: str, line: str) -> None:
    done = kubectl.run("exec", pod, "--", "sh", "-c", f'echo {line} >> "$CONTAINER_LOG"')
    assert done.returncode == 0, done.stderr


@contextmanager
def _terminal(*, rows: int, columns: int) -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    try:
        _resize(ours, rows=rows, columns=columns)
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def _resize(terminal: int, *, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _start_on_terminal(
    command: list[str], environment: dict[str, str], terminal: int
) -> subprocess.Popen[bytes]:
    """Start a program whose controlling terminal this is, so that it hears of new sizes."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        # One system call between fork and exec: safe with threads about, they hold no lock of it.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - see above
    )


def _read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 4096)


@contextmanager
def _web_server(at_once: int) -> Iterator[int]:
    """Serve pages on a port of 127.0.0.1, none before so many are asked for at once."""
    with _WebServer(("127.0.0.1", 0), _Pages) as server:
        server.all_here = threading.Barrier(at_once, timeout=PATIENCE_SECONDS)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _WebServer(ThreadingHTTPServer):
    request_queue_size = 128  # all requests may knock in the same moment
    all_here: threading.Barrier


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _WebServer)
        self.server.all_here.wait()
        page = _page(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: the tests' output is for failures."""


def _page(path: str) -> bytes:
    """Return a page that differs by path and needs more than one frame."""
    return path.encode() + b"\n" + _noise(100_000)


def _fetch(url: str) -> bytes:
    with urlopen(url, timeout=PATIENCE_SECONDS) as response:
        content = response.read()
        assert isinstance(content, bytes)
        return content
