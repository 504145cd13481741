"""Output formats of the analysis commands: tables and trees, JSON and YAML."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

import yaml

OUTPUTS = ("table", "json", "yaml")
"""Values of `-o`. The first is the default."""

# Scalars that some YAML parsers do not read as strings: numbers, and the short booleans.
_AMBIGUOUS = re.compile(r"[-+.~0-9].*|[yn]", re.IGNORECASE | re.DOTALL)
_MAX_WIDTH = 1 << 20


@dataclass(frozen=True, slots=True)
class Colors:
    """Colours for a terminal, or none."""

    is_enabled: bool = False

    def good(self, text: str) -> str:
        """Return a text in the colour for something allowed."""
        return self._colored("32", text)

    def bad(self, text: str) -> str:
        """Return a text in the colour for something denied."""
        return self._colored("31", text)

    def faint(self, text: str) -> str:
        """Return a text of low importance, dimmed."""
        return self._colored("2", text)

    def strong(self, text: str) -> str:
        """Return a heading, in bold."""
        return self._colored("1", text)

    def _colored(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_enabled else text


def colors_for(stream: TextIO, environment: Mapping[str, str]) -> Colors:
    """Return colours if the stream is a terminal that supports them and NO_COLOR is not set."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return Colors()
    return Colors(is_enabled=stream.isatty())


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of a tree and its children. A text of several lines keeps its lines."""

    text: str
    children: list["TreeNode"] = field(default_factory=list)


def tree_lines(branches: Sequence[TreeNode], *, indent: str = "") -> list[str]:
    """Return a tree as lines."""
    lines: list[str] = []
    for position, branch in enumerate(branches):
        is_last = position == len(branches) - 1
        first, *more = branch.text.split("\n")
        deeper = indent + ("   " if is_last else "│  ")
        lines.append(f"{indent}{'└─ ' if is_last else '├─ '}{first}")
        lines += [deeper + line for line in more]
        lines += tree_lines(branch.children, indent=deeper)
    return lines


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a header and rows as aligned columns."""
    cells = [list(header), *([escape_control_characters(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def escape_control_characters(text: str) -> str:
    """Return a text without control characters. Names are untrusted and reach a terminal."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def document_text(document: object, output: str) -> str:
    """Return one document as JSON or YAML, with a final newline."""
    if output == "json":
        return json.dumps(document, indent=2) + "\n"
    return manifests_text([document])


def manifests_text(documents: Sequence[object]) -> str:
    """Return documents as one YAML stream for `kubectl apply -f -`."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=_MAX_WIDTH)


class _Dumper(yaml.SafeDumper):
    """Quotes strings that another YAML parser could read as another type."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library's signature
        """Disable aliases: a repeated value is written twice."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


_INDENT = "    "


def stream_document(
    head: Mapping[str, object], name: str, items: Iterable[object], output: str
) -> Iterator[str]:
    """Yield one document in JSON or YAML: the head, then the items under `name`."""
    if output == "yaml":
        yield from _listed_yaml(head, name, items)
        return
    start = json.dumps({**head, name: []}, indent=2).removesuffix("]\n}")
    separator = "\n"
    yield start
    for item in items:
        text = json.dumps(item, indent=2).replace("\n", f"\n{_INDENT}")
        yield f"{separator}{_INDENT}{text}"
        separator = ",\n"
    yield "]\n}\n" if separator == "\n" else "\n  ]\n}\n"


def stream_manifests(manifests: Iterable[object], output: str) -> Iterator[str]:
    """Yield objects for `kubectl apply -f -`: a YAML stream, or a List in JSON."""
    if output == "json":
        yield from stream_document({"apiVersion": "v1", "kind": "List"}, "items", manifests, output)
        return
    separator = ""
    for manifest in manifests:
        yield separator + manifests_text([manifest])
        separator = "---\n"


def _listed_yaml(head: Mapping[str, object], name: str, items: Iterable[object]) -> Iterator[str]:
    others = {key: value for key, value in head.items() if key != name}
    yield document_text(others, "yaml")
    is_empty = True
    for item in items:
        yield (f"{name}:\n" if is_empty else "") + document_text([item], "yaml")
        is_empty = False
    if is_empty:
        yield f"{name}: []\n"
