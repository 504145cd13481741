"""How advice is printed: as a table or a tree for people, as JSON or YAML for programs."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

import yaml

OUTPUTS = ("table", "json", "yaml")
"""What `-o` takes; the first is the default."""

# What only some readers of YAML take for a text: numbers of all kinds, and the short booleans.
_AMBIGUOUS = re.compile(r"[-+.~0-9].*|[yn]", re.IGNORECASE | re.DOTALL)
_WIDE = 1 << 20


@dataclass(frozen=True, slots=True)
class Colors:
    """Colours for a terminal, or none."""

    has_colour: bool = False

    def good(self, text: str) -> str:
        """Return a text that tells of something allowed."""
        return self._in("32", text)

    def bad(self, text: str) -> str:
        """Return a text that tells of something denied."""
        return self._in("31", text)

    def faint(self, text: str) -> str:
        """Return a text that may be skipped."""
        return self._in("2", text)

    def strong(self, text: str) -> str:
        """Return a text to begin with."""
        return self._in("1", text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_colour else text


def colors_for(stream: TextIO, environment: Mapping[str, str]) -> Colors:
    """Return colours if the stream is a terminal that has some and nobody has asked for none."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return Colors()
    return Colors(has_colour=stream.isatty())


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A line of a tree, and what hangs below it. A text of several lines keeps them."""

    text: str
    below: list["TreeNode"] = field(default_factory=list)


def tree_lines(branches: Sequence[TreeNode], *, indent: str = "") -> list[str]:
    """Return a tree as lines."""
    lines: list[str] = []
    for position, branch in enumerate(branches):
        is_last = position == len(branches) - 1
        first, *more = branch.text.split("\n")
        deeper = indent + ("   " if is_last else "│  ")
        lines.append(f"{indent}{'└─ ' if is_last else '├─ '}{first}")
        lines += [deeper + line for line in more]
        lines += tree_lines(branch.below, indent=deeper)
    return lines


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows in columns as wide as they need to be, under their header."""
    cells = [list(header), *([escape_control_characters(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def escape_control_characters(text: str) -> str:
    """Return a text that can do nothing to a terminal: names are other people's words."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def document_text(document: object, output: str) -> str:
    """Return one document for a program, with the newline at its end."""
    if output == "json":
        return json.dumps(document, indent=2) + "\n"
    return manifests_text([document])


def manifests_text(documents: Sequence[object]) -> str:
    """Return documents as one stream of YAML that `kubectl apply -f -` reads as it is meant."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=_WIDE)


class _Dumper(yaml.SafeDumper):
    """Quotes what another reader of YAML could take for something else than a text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library's signature
        """Write the same thing twice rather than refer to it."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


_INDENT = "    "


def stream_document(
    head: Mapping[str, object], name: str, items: Iterable[object], output: str
) -> Iterator[str]:
    """Give one document in JSON or YAML: the head, then the items under `name`."""
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
    """Give objects as `kubectl apply -f -` takes them: a stream of YAML, or a List in JSON."""
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
