"""Completion candidates of a small parser: commands, options, values and files."""

import argparse
from pathlib import Path

import pytest

from proxy.cli.completion_engine import Candidate, Completion, complete


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="program")
    parser.add_argument("--verbose", action="store_true", help="log more; much more")
    commands = parser.add_subparsers()
    copy = commands.add_parser("copy", help="copy a\n  file; keep the old one")
    copy.add_argument("-f", "--format", choices=("json", "yaml", "jsonl"), help="the format")
    copy.add_argument("--output", type=Path)
    copy.add_argument("--level", type=int)
    copy.add_argument("--hidden", help=argparse.SUPPRESS)
    copy.add_argument("kind", choices=("link", "file"))
    copy.add_argument("paths", type=Path, nargs="+")
    check = commands.add_parser("check", help="check access")
    check.add_argument("verb")
    check.add_argument("resource")
    return parser


def completed(*words: str) -> Completion:
    return complete(make_parser(), words)


def words_after(*words: str) -> list[str]:
    return [candidate.text for candidate in completed(*words).candidates]


def test_commands_have_their_help_up_to_the_semicolon_in_one_line() -> None:
    expected = [Candidate("copy", "copy a file"), Candidate("check", "check access")]

    assert completed("").candidates == expected
    assert completed().candidates == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("co",), ["copy"]),
        (("x",), []),
        (("unknown", "ch"), ["check"]),
        (("--verbose", "ch"), ["check"]),
        (("copy", ""), ["link", "file"]),
        (("copy", "l"), ["link"]),
        (("copy", "--format", ""), ["json", "yaml", "jsonl"]),
        (("copy", "-f", "json"), ["json", "jsonl"]),
        (("copy", "--format=y"), ["--format=yaml"]),
        (("copy", "-f=y"), ["-f=yaml"]),
        (("copy", "--unknown=y"), []),
        (("copy", "--format", "=", "y"), ["yaml"]),
        (("copy", "--format", "="), ["json", "yaml", "jsonl"]),
        (("copy", "--format", "json", "l"), ["link"]),
        (("copy", "--format=json", "l"), ["link"]),
        (("copy", "--unknown", "l"), ["link"]),
        (("copy", "--level", ""), []),
        (("check", "de"), ["delete", "deletecollection"]),
        (("check", "get", "de"), []),
    ],
    ids=" ".join,
)
def test_word_is_completed_by_what_its_position_accepts(
    words: tuple[str, ...], expected: list[str]
) -> None:
    assert words_after(*words) == expected


def test_options_are_those_of_the_command_without_hidden_ones_and_short_forms() -> None:
    assert words_after("--") == ["--help", "--verbose"]
    assert words_after("copy", "--") == ["--help", "--format", "--output", "--level"]
    assert words_after("copy", "--fo") == ["--format"]
    assert words_after("copy", "--hid") == []
    assert Candidate("--verbose", "log more") in completed("--v").candidates


def test_single_dash_adds_options_to_what_the_position_accepts() -> None:
    assert words_after("copy", "-") == ["--help", "--format", "--output", "--level"]


def test_options_are_offered_where_no_positional_is_left() -> None:
    assert words_after("check", "get", "pods", "") == ["--help"]
    assert words_after("check", "get", "pods", "x") == []


def test_words_after_a_double_dash_are_not_options() -> None:
    assert words_after("copy", "--", "l") == ["link"]
    assert words_after("copy", "--", "link", "--fo") == []
    assert words_after("copy", "link", "--fo") == ["--format"]


@pytest.mark.parametrize(
    "words",
    [
        ("copy", "--output", ""),
        ("copy", "--output=a"),
        ("copy", "link", ""),
        ("copy", "link", "a", "b", ""),
    ],
    ids=" ".join,
)
def test_files_are_completed_for_arguments_that_are_paths(words: tuple[str, ...]) -> None:
    assert completed(*words).completes_files


@pytest.mark.parametrize(
    "words",
    [("copy", ""), ("copy", "--level", ""), ("copy", "link", "--"), ("check", "get", "")],
    ids=" ".join,
)
def test_files_are_not_completed_for_other_arguments(words: tuple[str, ...]) -> None:
    assert not completed(*words).completes_files
