import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import ChildProcess, start_child
from tests.support.control_plane import is_alive
from tests.support.streaming import wait_until

Start = Callable[..., ChildProcess]
SLEEP = ["sleep", "600"]

# What a crashing program does: start a child, in a worker thread if told to, and say its pid.
STARTER = """
import sys, threading, time
from pathlib import Path
from proxy.sandbox.processes import start_child

children = []
def start():
    children.append(start_child(["sleep", "600"], log_file=Path(sys.argv[1])))

if sys.argv[2] == "thread":
    worker = threading.Thread(target=start)
    worker.start()
    worker.join()
else:
    start()
print(children[0].pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


@pytest.fixture
def start(log_file: Path) -> Iterator[Start]:
    with ExitStack() as cleanup:

        def start_and_remember(command: list[str], grace_seconds: float = 10) -> ChildProcess:
            child = start_child(command, log_file=log_file, grace_seconds=grace_seconds)
            cleanup.callback(child.stop)
            return child

        yield start_and_remember


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_output_of_both_kinds_goes_to_the_log_file(start: Start, log_file: Path) -> None:
    child = start(shell("echo out; echo err >&2"))

    assert child.wait(10) == 0
    assert log_file.read_text() == "out\nerr\n"


def test_the_pid_is_the_programs_own(start: Start, log_file: Path) -> None:
    child = start(shell("echo $$; exec sleep 600"))

    wait_until(lambda: log_file.read_text() != "", "the program said nothing")
    assert int(log_file.read_text()) == child.pid


def test_a_missing_program_is_one_clear_line(start: Start) -> None:
    with pytest.raises(SandboxError) as failure:
        start(["/nowhere/etcd"])

    assert str(failure.value) == "cannot start /nowhere/etcd: No such file or directory"


def test_a_program_that_ended_is_reported_with_its_last_lines(start: Start) -> None:
    child = start(shell("seq 9; exit 3"))
    child.wait(10)

    with pytest.raises(SandboxError) as failure:
        child.ensure_running()

    assert str(failure.value) == "sh exited with code 3: 7 | 8 | 9"


def test_a_running_program_is_not_reported(start: Start) -> None:
    child = start(SLEEP)

    child.ensure_running()

    assert child.wait(0) is None


def test_a_killed_program_ends_with_the_signal_in_its_code(start: Start) -> None:
    child = start(SLEEP)

    child.send_signal(signal.SIGKILL)

    assert child.wait(10) == 128 + signal.SIGKILL


def test_a_signal_to_an_ended_program_does_nothing(start: Start) -> None:
    child = start(shell("exit 0"))
    child.wait(10)

    child.send_signal(signal.SIGKILL)

    assert child.wait(0) == 0


def test_stopping_lets_a_program_put_its_affairs_in_order(start: Start, log_file: Path) -> None:
    child = start(shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
    wait_until(lambda: log_file.read_text() != "", "the program said nothing")

    child.stop()

    assert log_file.read_text() == "ready\nbye\n"
    assert child.wait(0) == 0


def test_a_program_that_will_not_stop_is_killed_after_its_grace(
    start: Start, log_file: Path
) -> None:
    child = start(
        shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"), grace_seconds=0.2
    )
    wait_until(lambda: log_file.read_text() != "", "the program said nothing")

    child.stop()

    assert child.wait(0) == 128 + signal.SIGKILL
    assert not is_alive(child.pid)


def test_a_frozen_program_is_stopped_too(start: Start) -> None:
    child = start(SLEEP, grace_seconds=0.2)
    child.send_signal(signal.SIGSTOP)

    child.stop()

    assert not is_alive(child.pid)


def test_stopping_twice_is_fine(start: Start) -> None:
    child = start(SLEEP)

    child.stop()
    child.stop()

    assert child.wait(0) == 128 + signal.SIGTERM


def test_a_child_outlives_the_thread_that_started_it(start: Start) -> None:
    children: list[ChildProcess] = []
    worker = threading.Thread(target=lambda: children.append(start(SLEEP)))
    worker.start()
    worker.join()

    # A signal at the thread's end would be there by now: a whole program ran since.
    assert start(shell("exit 0")).wait(10) == 0
    assert children[0].wait(0) is None
    assert is_alive(children[0].pid)


def test_ctrl_c_on_our_terminal_does_not_reach_a_child(start: Start) -> None:
    child = start(SLEEP)

    assert os.getpgid(child.pid) != os.getpgid(0)
    assert os.getsid(child.pid) != os.getsid(0)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_child_dies_when_its_starter_is_killed(log_file: Path, where: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, log_file, where], stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert is_alive(pid)

        starter.kill()

    wait_until(lambda: not is_alive(pid), "the child outlived its starter")


def test_a_child_dies_when_its_supervisor_is_killed(start: Start) -> None:
    child = start(SLEEP)
    supervisor = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert supervisor != os.getpid()

    with suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGKILL)

    wait_until(lambda: not is_alive(child.pid), "the child outlived its supervisor")
