"""The demo: `understudy dev` as a person or a pipeline runs it, and a tour that tells no lies."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.programs.binaries import Binaries
from proxy.sandbox.tour.deputy import deputy
from proxy.sandbox.tour.environment import prepared_environment
from proxy.sandbox.tour.node_agent import node_agent
from proxy.sandbox.tour.printer import TextPrinter
from proxy.sandbox.tour.runner import (
    Chapter,
    ImpersonationRequest,
    ReviewedPermission,
    Step,
    StepOutcome,
    TourFailed,
    TourServer,
    TourUser,
    run_tour,
)

DEV = [sys.executable, "-P", "-m", "proxy", "dev"]
NOBODY = TourUser("nobody", "nobody-of-the-tour")
LIST_PODS = ReviewedPermission(NOBODY, "list", "pods")


@pytest.mark.timeout(180)
def test_without_a_terminal_the_tour_is_told_and_the_command_ends(
    binaries: Binaries, tmp_path: Path
) -> None:
    done = subprocess.run(
        DEV,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ("Pass-through", "Story 1", "Story 2", "steps passed", "/alice.yaml"):
        assert text in done.stdout
    assert "\x1b[" not in done.stdout
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(180)
def test_on_a_terminal_it_stays_until_ctrl_c_and_then_leaves_nothing(
    binaries: Binaries, tmp_path: Path
) -> None:
    with terminal() as (ours, theirs):
        process = start_dev(tmp_path, theirs)
        seen = read_until(ours, b"keeps running until Ctrl-C")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate()

    assert process.returncode == 0
    assert complaints == b""
    assert b"\x1b[32mALLOWED" in seen
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle_it_leaves_nothing_and_complains_about_nothing(
    number: signal.Signals, binaries: Binaries, tmp_path: Path
) -> None:
    with terminal() as (ours, theirs):
        process = start_dev(tmp_path, theirs, NO_COLOR="1")
        seen = read_until(ours, b"API servers are ready")
        process.send_signal(number)
        _, complaints = process.communicate()

    assert process.returncode == 130
    assert complaints == b""
    assert b"\x1b[" not in seen
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(180)
def test_a_reader_that_leaves_ends_it_quietly(binaries: Binaries, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEV, "--once"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait() == 141
    assert leftovers(tmp_path) == []


@pytest.mark.timeout(180)
def test_the_native_server_tells_the_same_stories(binaries: Binaries) -> None:
    output = io.StringIO()

    with prepared_environment(print_nothing) as stage:
        chapters = [node_agent(stage, stage.native), deputy(stage, stage.native)]
        narrator = TextPrinter(output, is_coloured=False)
        steps = run_tour(
            chapters,
            admin=stage.plain.admin,
            on_chapter=narrator.print_chapter,
            on_step=narrator.print_step,
        )

    assert steps == 18
    assert "Requests are sent directly to an API server with constrained" in output.getvalue()


def test_a_step_that_goes_as_promised_is_told_with_its_reasons(
    native_api_server: ApiServer,
) -> None:
    step = replace(refusal(native_api_server), missing=(LIST_PODS,), note="and that is all")

    told = tell(step, native_api_server)

    assert "DENIED    pods is forbidden" in told
    assert "reason    no grant allows nobody to list pods" in told
    assert "and that is all" in told


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"allowed": True}, r"step 1 \(A step\) must be allowed but was denied: pods is forbidden"),
        (
            {"expected_text": "teapot"},
            r"step 1 \(A step\) must show 'teapot' but shows pods is forbidden",
        ),
        ({"granted": (LIST_PODS,)}, r"list pods must be granted but is not"),
        (
            {"missing": (replace(LIST_PODS, user=TourUser("root", "root", ("system:masters",))),)},
            r"list pods must not be granted but is",
        ),
    ],
    ids=["outcome", "answer", "grant that is missing", "grant that should not be"],
)
def test_a_step_that_does_not_go_as_promised_ends_the_tour(
    change: dict[str, object], complaint: str, native_api_server: ApiServer
) -> None:
    step = replace(refusal(native_api_server), **change)  # type: ignore[arg-type] # a table of fields

    with pytest.raises(TourFailed, match=complaint):
        tell(step, native_api_server)


@dataclass(frozen=True)
class Scripted:
    """A request whose outcome is known."""

    outcome: StepOutcome

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        return ["GET /"]

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        return self.outcome


def refusal(server: ApiServer) -> Step:
    return Step(
        description="A step.",
        sender=NOBODY,
        request=Scripted(StepOutcome(allowed=False, text="pods is forbidden")),
        target=server,
        allowed=False,
        expected_text="pods is forbidden",
    )


def tell(step: Step, server: ApiServer) -> str:
    output = io.StringIO()
    narrator = TextPrinter(output, is_coloured=False)
    run_tour(
        [Chapter("A chapter", "About a step.", [step])],
        admin=server.admin,
        on_chapter=narrator.print_chapter,
        on_step=narrator.print_step,
    )
    return output.getvalue()


def print_nothing(line: str) -> None:
    """Take an announcement and leave it."""


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def start_dev(directory: Path, terminal: int, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        DEV,
        env=os.environ | {"TMPDIR": str(directory), "TERM": "xterm"} | environment,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
    )


def read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 65536)
    return seen


def leftovers(directory: Path) -> list[str]:
    """Return files and processes of a run whose temporary directory was this."""
    files = [str(path) for path in directory.iterdir()]
    processes = [
        line
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(directory) in (line := command_line(path))
    ]
    return files + processes


def command_line(path: Path) -> str:
    try:
        return path.read_text().replace("\0", " ")
    except OSError:  # it ended while we looked
        return ""
