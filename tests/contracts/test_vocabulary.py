"""The project uses the terms of kube-apiserver; replaced words only become fewer."""

from pathlib import Path

import pytest

from tests.contracts.vocabulary import count_in_directory, words_in_markdown, words_in_python

ROOT = Path(__file__).parents[2]
# How many are left. A lower count fails as well: lower the number, so that it only shrinks.
LEFT_IN_PYTHON = {"proxy": 0, "bench": 0, "tests": 1099}
LEFT_IN_MARKDOWN: dict[str, int] = {}
# Decisions are never edited; their index lists old names.
DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "manifests/**/*.md", "charts/**/*.md")
    for file in ROOT.glob(pattern)
    if "decisions" not in file.parts
)


@pytest.mark.parametrize("directory", LEFT_IN_PYTHON)
def test_python_uses_no_more_replaced_words_than_are_listed(directory: str) -> None:
    assert count_in_directory(ROOT / directory) == LEFT_IN_PYTHON[directory]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_documents_use_no_more_replaced_words_than_are_listed(file: Path) -> None:
    found = words_in_markdown(file.read_text())

    assert len(found) == LEFT_IN_MARKDOWN.get(str(file.relative_to(ROOT)), 0), found


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('"""What nobody reads."""', {"nobody": 1}),
        ("x = 1  # whoever asks is told", {"whoever": 1, "is told": 1}),
        ("class Doorkeeper: ...", {"identifier doorkeeper": 1}),
        ("def f(audit_trail): ...", {"identifier trail": 1}),
        ("self.guest_room = 1", {"identifier guest": 1, "identifier room": 1}),
        ("x = 'nobody'  # a user name: `nobody`", {}),
        ("def is_in_broom(): ...", {}),
    ],
)
def test_replaced_words_are_found(source: str, words: dict[str, int]) -> None:
    assert words_in_python(source) == words


def test_code_in_documents_is_left_out() -> None:
    assert words_in_markdown("We `whom`.\n```\nnobody\n```\n[a](our.md)") == ["we"]
