"""Completion as a shell and kubectl ask for it."""

import os
import pty
import select
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from proxy.cli.completion import SCRIPTS, completion_text
from proxy.cli.completion_engine import Completion, complete
from proxy.cli.main import _COMMANDS, parser_for
from proxy.sandbox.programs.binaries import Binaries

pytestmark = pytest.mark.timeout(90)  # Python is started anew for each word
PROGRAMS = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}


def completed(*words: str) -> Completion:
    return complete(parser_for(words), words)


def words_after(*words: str) -> list[str]:
    return [one.text for one in completed(*words).candidates]


def test_commands_come_first_with_what_they_do() -> None:
    found = completed("")

    assert [one.text for one in found.candidates] == list(_COMMANDS)
    assert {one.text: one.help for one in found.candidates}["serve"] == "run the proxy"
    assert not found.completes_files


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rep",), ["report"]),
        (("nonsense", "rep"), ["report"]),
        (("report", "--gr"), ["--grant-only"]),
        (("report", "-o", ""), ["table", "json", "yaml"]),
        (("report", "-o", "j"), ["json"]),
        (("report", "--output=y"), ["--output=yaml"]),
        (("report", "--output", "=", "y"), ["yaml"]),
        (("report", "--output", "="), ["table", "json", "yaml"]),
        (("report", "--most", "7", "--out"), ["--output"]),
        (("report", "--", "--out"), []),
        (("explain", "--user", "bob", "lis"), ["list"]),
        (("audit", ""), ["join"]),
        (("audit", "join", "--proxy-"), ["--proxy-log", "--proxy-user"]),
        (("completion", "f"), ["fish"]),
    ],
    ids=" ".join,
)
def test_what_could_come_next(words: tuple[str, ...], expected: list[str]) -> None:
    assert words_after(*words) == expected


@pytest.mark.parametrize(
    "words",
    [("serve", "--config", "x"), ("report", ""), ("report", "a.log", ""), ("check-config", "")],
)
def test_files_come_where_a_file_is_wanted(words: tuple[str, ...]) -> None:
    assert completed(*words).completes_files


def test_no_file_comes_where_none_is_wanted() -> None:
    assert not completed("report", "--most", "").completes_files
    assert not completed("audit", "").completes_files


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_every_command_completes_its_options(command: str) -> None:
    assert hasattr(import_module(f"proxy.cli.{command.replace('-', '_')}"), "register")
    assert "--help" in words_after(command, "--")


def test_words_are_told_as_kubectl_reads_them() -> None:
    assert completion_text(["repo"]).splitlines() == [
        f"report\t{_COMMANDS['report']}",
        ":4",
    ]
    assert completion_text(["report", ""]) == ":0"


def test_the_words_of_a_line_may_look_like_options() -> None:
    done = subprocess.run(
        [PROGRAMS / "understudy", "completion", "words", "--", "report", "--gr"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[0].startswith("--grant-only\t")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_has_a_script_that_asks_for_words(shell: str) -> None:
    done = subprocess.run(
        [PROGRAMS / "understudy", "completion", shell], capture_output=True, text=True, check=True
    )

    assert "understudy completion words --" in done.stdout


def test_a_person_at_bash_types_less(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    (tmp_path / "audit.log").write_text("")
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
        env={**ENVIRONMENT, "TERM": "dumb", "PS1": "$ "},
        start_new_session=True,
    ) as shell:
        try:
            os.write(controller, b"source <(understudy completion bash); echo rea''dy\n")
            read_until(controller, b"ready\r\n")
            # A word that is complete is followed by a space, which need not be typed.
            os.write(controller, b"understudy vers\t--outp\tjs\t\n")
            told = read_until(controller, b'"decidesAs"')
            os.write(controller, b"\x03understudy rep\t--output=js\taud\t--gra\t\n")
            report = read_until(controller, b'"kind": "List"')
        finally:
            shell.kill()
            os.close(terminal)
            os.close(controller)

    assert b"understudy version --output json" in told
    assert b"understudy report --output=json audit.log --grant-only" in report


def read_until(descriptor: int, wanted: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + 60
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        ready, _, _ = select.select([descriptor], [], [], 1)
        seen += os.read(descriptor, 4096) if ready else b""
    return seen


def test_kubectl_finds_the_plugin_and_its_completion(binaries: Binaries) -> None:
    def kubectl(*arguments: str) -> str:
        done = subprocess.run(
            [binaries.kubectl, *arguments],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    version = kubectl("understudy", "version")
    usage = kubectl("understudy", "explain", "--help")
    listed = kubectl("plugin", "list", "--name-only")
    completed_by_kubectl = kubectl("__complete", "understudy", "expl")
    values = kubectl("__complete", "understudy", "report", "-o", "")

    assert version.startswith("understudy ")
    assert usage.startswith("usage: kubectl understudy explain")
    assert "kubectl-understudy" in listed.split()
    assert completed_by_kubectl.splitlines()[0] == f"explain\t{_COMMANDS['explain']}"
    assert values.splitlines()[:3] == ["table", "json", "yaml"]
