import io
import json

import pytest
import yaml

from proxy.analysis.output import (
    Colors,
    TreeNode,
    colors_for,
    document_text,
    escape_control_characters,
    manifests_text,
    table_lines,
    tree_lines,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours() -> None:
    ink = colors_for(Terminal(), {"TERM": "xterm", "NO_COLOR": ""})

    assert ink.good("yes") == "\x1b[32myes\x1b[0m"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_whoever_wants_no_colours_gets_none(environment: dict[str, str]) -> None:
    assert colors_for(Terminal(), environment) == Colors()


def test_a_pipe_gets_no_colours() -> None:
    ink = colors_for(io.StringIO(), {})

    assert [ink.good("a"), ink.bad("b"), ink.faint("c"), ink.strong("d")] == ["a", "b", "c", "d"]


def test_a_tree_shows_what_hangs_where() -> None:
    tree = [TreeNode("a", [TreeNode("b\nb2"), TreeNode("c")]), TreeNode("d", [TreeNode("e")])]

    assert tree_lines(tree) == [
        "├─ a",
        "│  ├─ b",
        "│  │  b2",
        "│  └─ c",
        "└─ d",
        "   └─ e",
    ]


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    lines = table_lines(["WHO", "WHAT"], [["bob", "x"], ["a\x1blice", "yy"]])

    assert lines == ["WHO          WHAT", "bob          x", "a\\u001blice  yy"]


def test_names_can_do_nothing_to_a_terminal() -> None:
    assert escape_control_characters("é x") == "é x"
    assert escape_control_characters("\x1b[31m\n") == "\\u001b[31m\\n"


def test_a_document_is_json_or_yaml() -> None:
    document = {"a": ["x"], "b": None}

    assert json.loads(document_text(document, "json")) == document
    assert yaml.safe_load(document_text(document, "yaml")) == document


@pytest.mark.parametrize("text", ["1e3", "0o7", "y", "N", "1_000", "~", "-", "+1", ".5", "0x1f"])
def test_what_another_reader_could_take_for_something_else_is_quoted(text: str) -> None:
    assert f'"{text}"' in manifests_text([{"name": text}])


@pytest.mark.parametrize(
    "text", ["yes", "null", "", "a: b", "#", "é\u2028", "😀", "a\nb", "*", "&a", "x" * 500]
)
def test_every_text_comes_back_as_it_was(text: str) -> None:
    written = manifests_text([{"names": [text, text]}, {}])

    assert list(yaml.safe_load_all(written)) == [{"names": [text, text]}, {}]
