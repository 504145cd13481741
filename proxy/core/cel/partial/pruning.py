"""Pruning of errors by effect.

Where only true counts, as for Allow, an error is as good as false. Where true and error count
alike, as for Deny and NoOpinion, an error is as good as true. This holds only along a path of `&&`,
`||`, `!` and branches of a choice: elsewhere an error decides more than its own operand.
"""

from collections.abc import Callable

from proxy.core.cel.partial.rendering import ERROR_LITERAL
from proxy.core.cel.syntax.tree import Call, Expression, Literal


def prune_errors(tree: Expression, *, error_counts_as: bool) -> Expression:
    """Return a condition with its errors replaced by the value that they count as."""
    if tree == ERROR_LITERAL:
        return Literal(error_counts_as)
    prune = _PRUNED.get(tree.function) if isinstance(tree, Call) else None
    if prune is None or not isinstance(tree, Call):
        return tree
    return prune(tree, error_counts_as)


def _prune_not(tree: Call, error_counts_as: bool) -> Expression:  # noqa: FBT001 - in a table
    inner = prune_errors(tree.arguments[0], error_counts_as=not error_counts_as)
    if isinstance(inner, Literal) and isinstance(inner.value, bool):
        return Literal(not inner.value)
    return Call("!_", (inner,))


def _prune_choice(tree: Call, error_counts_as: bool) -> Expression:  # noqa: FBT001 - in a table
    branches = [
        prune_errors(branch, error_counts_as=error_counts_as) for branch in tree.arguments[1:]
    ]
    return Call("_?_:_", (tree.arguments[0], *branches))


def _prune_terms(tree: Call, error_counts_as: bool) -> Expression:  # noqa: FBT001 - in a table
    deciding = tree.function == "_||_"
    terms = [prune_errors(term, error_counts_as=error_counts_as) for term in tree.arguments]
    if Literal(deciding) in terms:
        return Literal(deciding)
    left = tuple([term for term in terms if term != Literal(not deciding)])
    if not left:
        return Literal(not deciding)
    if len(left) > 1:
        return Call(tree.function, left)
    # The operator stays, so that a value that is no bool remains an error.
    return Call(tree.function, (left[0], Literal(not deciding)))


_PRUNED: dict[str, Callable[[Call, bool], Expression]] = {
    "!_": _prune_not,
    "_&&_": _prune_terms,
    "_||_": _prune_terms,
    "_?_:_": _prune_choice,
}
