"""Words that the project replaced by the terms of kube-apiserver, and where they are left.

`docs/glossary.md` has the words to use instead.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# In prose: docstrings, comments and Markdown outside code.
PROSE = re.compile(
    r"\b(rooms?|desks?|doorkeepers?|guests?|goodbye|farewell|overhears?|overheard|natively|mend(?:s|ed)?"
    r"|whoever|whom|somebody|nobody|anybody|(?:is|are|be|was|were|been) told"
    r"|we|us|our|(?<!not-in-)ours|ourselves)\b",
    re.IGNORECASE,
)
# In identifiers: parts of snake_case and CamelCase names.
IDENTIFIER_PARTS = frozenset(
    {
        "anybody", "desk", "doorkeeper", "farewell", "goodbye", "guest", "nobody", "overheard",
        "overhearing", "room", "somebody", "tenure", "told", "trail", "whoever", "whom", "workshop",
    }
)  # fmt: skip
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def words_in_prose(text: str) -> list[str]:
    """Return the replaced words of a text, in lower case and in order."""
    return [match.group(0).lower() for match in PROSE.finditer(text)]


def words_in_markdown(text: str) -> list[str]:
    """Return the replaced words of a Markdown document, code and link targets left out."""
    return words_in_prose(_CODE.sub(" ", text))


def words_in_python(source: str) -> Counter[str]:
    """Return the replaced words of a module: comments, docstrings and names that it defines."""
    tree = ast.parse(source)
    prose = [*_comments(source), *_docstrings(tree)]
    found = Counter(word for text in prose for word in words_in_prose(_CODE.sub(" ", text)))
    for name in _defined_names(tree):
        parts = {part.lower() for part in _PART.findall(name)}
        found.update(f"identifier {part}" for part in parts & IDENTIFIER_PARTS)
    return found


def count_in_directory(directory: Path) -> int:
    """Return how many replaced words the Python files below a directory have."""
    return sum(
        words_in_python(file.read_text()).total() for file in sorted(directory.rglob("*.py"))
    )


def _comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass
