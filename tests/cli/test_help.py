"""Every command teaches by its --help, and meets bad input with a line, not with a traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.cli import main as cli
from proxy.cli.main import main

COMMANDS = sorted(cli._COMMANDS)
NOWHERE = "/nowhere/at/all"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command as a person does: exit code, output, and what is told."""

    def run_once(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as ended:  # as argparse ends
            code = int(ended.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_once


def test_the_overview_names_every_command_and_how_to_begin(run: Run) -> None:
    code, page, _ = run("--help")

    assert code == 0
    for text in (*COMMANDS, "to install it", "environment:", "exit codes:", "UNDERSTUDY_CONFIG"):
        assert text in page


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_itself_by_examples_and_exit_codes(run: Run, command: str) -> None:
    code, page, _ = run(command, "--help")

    assert code == 0
    assert f"usage: understudy {command}" in page
    assert f"  understudy {command}" in page.replace("sidecar      ", "  "), "no example"
    assert "exit codes: 0 " in page
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_does_not_exist_is_told_with_the_usage(run: Run, command: str) -> None:
    code, _, told = run(command, "--no-such-option")

    assert code == 2
    assert told.splitlines()[-1] == f"See 'understudy {command} --help'."
    assert len(told.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--config", NOWHERE),
        ("serve", "--config", "/"),
        ("serve", "--config", "/dev/null"),
        ("check-config", NOWHERE),
        ("check-config", "/"),
        ("check-config", "/dev/null"),
        ("check-config", "--running", NOWHERE, "--no-files", "config.example.yaml"),
        ("act", "--server", "https://127.0.0.1:1", "--as", "a", "--ca", NOWHERE),
        ("act", "--server", "https://127.0.0.1:1", "--as", "a", "--listen", "192.0.2.1:1"),
        ("act", "--server", "https://127.0.0.1:1", "--as", "a", "--certificate-dir", "/dev/null/x"),
        ("certificate",),
        ("certificate", "a.example", "--ca-out", f"{NOWHERE}/ca.crt"),
        ("kubeconfig", "--server", "https://a", "--token-file", NOWHERE),
        ("kubeconfig", "--server", "https://a", "--from-context", "a", "--kubeconfig", NOWHERE),
        ("kubeconfig", "--server", "https://a", "--ca", "/", "--token-file", "/"),
        ("kubeconfig", "--server", "https://a", "--as", "b"),
        ("audit", "join", NOWHERE, NOWHERE),
        ("audit", "join", "/", "/dev/null"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_used_is_a_line_and_an_exit_code(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.delenv("KUBECONFIG", raising=False)

    code, _, told = run(*arguments)

    assert code == 1
    assert told
    assert all(line.startswith("understudy: ") for line in told.splitlines()), told


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("serve",),
        ("check-config",),
        ("act",),
        ("kubeconfig",),
        ("audit",),
        ("audit", "join"),
        ("serve", "--config", "a", "--log-level", "loud"),
        ("act", "--server", "http://a", "--as", "b"),
        ("act", "--server", "https://a", "--as", "b", "--listen", "nowhere"),
        ("certificate", "a b"),
        ("certificate", "a", "--days", "never"),
        ("certificate", "a", "--namespace", "Not A Name"),
        ("version", "--output", "xml"),
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_wrong_options_are_told_with_the_usage(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_CONFIG", raising=False)

    code, _, told = run(*arguments)

    assert code == 2
    assert len(told.splitlines()) == 2
    assert told.splitlines()[-1].startswith("See 'understudy")


@pytest.mark.parametrize("arguments", [("--version",), ("-v",), ("version",)], ids=" ".join)
def test_version_is_printed_however_it_is_requested(run: Run, arguments: tuple[str, ...]) -> None:
    code, output, _ = run(*arguments)

    assert code == 0
    assert output.startswith("understudy ")


def test_help_is_a_command_as_well(run: Run) -> None:
    overview = run("--help")

    assert run() == run("help") == overview
    assert run("help", "explain") == run("explain", "--help")
    assert overview[0] == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [("explan", "; did you mean explain?"), ("grnat", "; did you mean grant?"), ("fly", "")],
)
def test_mistyped_command_has_a_suggestion(run: Run, name: str, hint: str) -> None:
    code, _, told = run(name)

    assert code == 2
    assert told == f"understudy: there is no command '{name}'{hint}\nSee 'understudy --help'.\n"


def test_a_wrong_log_level_of_the_environment_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG_LEVEL", "loud")

    assert run("serve", "--config", NOWHERE) == (
        1,
        "",
        "understudy: $UNDERSTUDY_LOG_LEVEL must be one of debug, info, warning, error\n",
    )


def test_whoever_reads_no_more_is_not_complained_to() -> None:
    program = "import os, sys; from proxy.cli.main import main; sys.exit(main(sys.argv[1:]))"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-u", "-c", program, "check-config", "--schema"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=25,
        )
    finally:
        os.close(writing)

    assert (ended.returncode, ended.stderr) == (141, "")
