"""Every link from one of our documents to another leads somewhere, to its heading if any."""

import re
from pathlib import Path

import pytest

from tests.support.doc_references import ROOT

DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("manifests/**/*.md")]
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """Return the anchors of headings, as they are made on GitHub."""
    text = CODE.sub("", document.read_text())
    headings = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in headings}


def broken(document: Path) -> list[str]:
    """Return the links of a document that lead nowhere."""
    found = []
    for name, anchor in LINK.findall(CODE.sub("", document.read_text())):
        target = document if not name else (document.parent / name).resolve()
        is_there = target.exists() and (not anchor or anchor in anchors(target))
        if not is_there:
            found.append(f"{name}#{anchor}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    document = tmp_path / "one.md"
    document.write_text("# One thing\n[a](#one-thing) [b](#two) [c](none.md) [d](https://x.io/y)\n")

    assert broken(document) == ["#two", "none.md#"]
