"""Names in unexpanded trees: which variables a tree uses, and substitution for them."""

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.syntax.macros import is_macro
from proxy.core.cel.syntax.parser import qualified_name
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Ident,
    ListLiteral,
    MapEntry,
    MapLiteral,
    Select,
    children,
)

_TWO_VARIABLES = frozenset(("transformList", "transformMap", "transformMapEntry", "existsOne"))
_ONE_VARIABLE = frozenset(
    ("all", "exists", "exists_one", "map", "filter", "optMap", "optFlatMap", "sortBy")
)


def bound_names(call: Call) -> tuple[str, ...]:
    """Return the variables that a macro binds in its last arguments."""
    if not is_macro(call) or call.function == "has":
        return ()
    two = call.function in _TWO_VARIABLES or (
        call.function != "map" and len(call.arguments) > len(("x", "predicate"))
    )
    names = call.arguments[: 2 if two else 1]
    return tuple([name.name for name in names if isinstance(name, Ident)])


def uses(tree: Expression, names: frozenset[str]) -> bool:
    """Return whether a tree uses one of some variables that it does not bind itself."""
    todo = [(tree, names)]
    while todo:
        node, wanted = todo.pop()
        if isinstance(node, Ident):
            if node.name.removeprefix(".") in wanted:
                return True
            continue
        bound = bound_names(node) if isinstance(node, Call) else ()
        if isinstance(node, Call) and bound:
            if node.target is not None:
                todo.append((node.target, wanted))
            inner = wanted - set(bound)
            todo.extend([(body, inner) for body in node.arguments[len(bound) :]])
        else:
            todo.extend([(child, wanted) for child in children(node)])
    return False


def substitute(tree: Expression, name: str, value: Expression) -> Expression:
    """Return a tree with a variable replaced, except where a macro binds it again."""
    if isinstance(tree, Ident):
        return value if tree.name == name else tree
    if isinstance(tree, Call) and name in bound_names(tree):
        target = None if tree.target is None else substitute(tree.target, name, value)
        return Call(tree.function, tree.arguments, target)
    parts = [substitute(part, name, value) for part in operands(tree)]
    return with_children(tree, parts)


def operands(tree: Expression) -> tuple[Expression, ...]:
    """Return the parts of a node that have a value: a namespace such as `sets` has none."""
    if isinstance(tree, Call) and _namespace(tree) is not None:
        return tree.arguments
    return children(tree)


def _namespace(call: Call) -> Expression | None:
    prefix = None if call.target is None else qualified_name(call.target)
    return call.target if prefix and f"{prefix}.{call.function}" in FUNCTIONS else None


def with_children(tree: Expression, parts: list[Expression]) -> Expression:
    """Return a node of the same kind with other parts, in the order of `operands`."""
    if isinstance(tree, Call):
        return _with_operands(tree, parts)
    if isinstance(tree, Select):
        return Select(parts[0], tree.field_name, tree.test_only)
    if isinstance(tree, ListLiteral):
        return ListLiteral(tuple(parts), tree.optional)
    if isinstance(tree, MapLiteral):
        pairs = zip(parts[::2], parts[1::2], tree.entries, strict=True)
        entries = [MapEntry(key, value, entry.optional) for key, value, entry in pairs]
        return MapLiteral(tuple(entries))
    return tree


def _with_operands(call: Call, parts: list[Expression]) -> Expression:
    namespace = _namespace(call)
    if call.target is None or namespace is not None:
        return Call(call.function, tuple(parts), namespace)
    return Call(call.function, tuple(parts[1:]), parts[0])
