"""From a disagreement to its smallest form: what is left is what it takes."""

import copy
from collections.abc import Callable, Iterator

from tests.algebra.cases import Node, leaf

_EFFECTS = ("deny", "noOpinion", "allow")


def shrink(root: Node, is_wrong: Callable[[Node], bool]) -> Node:
    """Return a tree that is still wrong and cannot lose any one part more."""
    while True:
        for candidate in _smaller(root):
            if is_wrong(candidate):
                root = candidate
                break
        else:
            return root


def _smaller(node: Node) -> Iterator[Node]:
    for index, member in enumerate(node["members"]):
        yield _with(node, "members", node["members"][:index] + node["members"][index + 1 :])
        for smaller in _smaller(member):
            changed = [*node["members"][:index], smaller, *node["members"][index + 1 :]]
            yield _with(node, "members", changed)
    for effect in _EFFECTS:
        listed = node[effect]  # type: ignore[literal-required]  # one of three names
        for index in range(len(listed)):
            yield _with(node, effect, listed[:index] + listed[index + 1 :])
            if listed[index]["body"]:
                plain = {**listed[index], "body": ""}
                yield _with(node, effect, [*listed[:index], plain, *listed[index + 1 :]])
    yield from _plainer(node)


def _plainer(node: Node) -> Iterator[Node]:
    if node["errors"]:
        yield _with(node, "errors", node["errors"][1:])
    if node["reason"]:
        yield _with(node, "reason", "")
    if node["evaluator"] != "own":
        yield _with(node, "evaluator", "own")
    if node["kind"] not in {"NoOpinion", "Union"}:
        smaller = leaf("NoOpinion")
        smaller["name"] = node["name"]
        yield smaller


def _with(node: Node, key: str, value: object) -> Node:
    changed = copy.copy(node)
    changed[key] = value  # type: ignore[literal-required]  # a name of this dictionary
    return changed
