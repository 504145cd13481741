"""Documents with a long list at their end, printed piece by piece: only one item is in memory."""

import json
from collections.abc import Iterable, Iterator, Mapping

from proxy.advice.printing import document_text, manifests_text

_INDENT = "    "


def listed_texts(
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


def manifest_texts(manifests: Iterable[object], output: str) -> Iterator[str]:
    """Give objects as `kubectl apply -f -` takes them: a stream of YAML, or a List in JSON."""
    if output == "json":
        yield from listed_texts({"apiVersion": "v1", "kind": "List"}, "items", manifests, output)
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
