"""Reduction of a tree by what is known.

A part that depends on known variables alone becomes its value or an error. The rules for the rest
are sound for every value of the unknown variables, including values of the wrong type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from proxy.core.cel.environment import CelEnvironment
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.partial.names import bound_names, operands, substitute, uses, with_children
from proxy.core.cel.partial.rendering import ERROR_LITERAL, LiteralStyle, render
from proxy.core.cel.syntax.tree import Call, Expression, ListLiteral, Literal, Select
from proxy.core.cel.values.kinds import Value

# Longer known lists stay a macro over the list.
MOST_UNROLLED = 32


@dataclass(frozen=True, slots=True)
class Known:
    """A value that does not depend on anything unknown."""

    value: Value


@dataclass(frozen=True, slots=True)
class Failed:
    """An error, whatever is unknown."""


@dataclass(frozen=True, slots=True)
class Open:
    """A tree over unknown variables."""

    tree: Expression


Reduced: TypeAlias = Known | Failed | Open
_LAZY = frozenset(("or", "orValue"))


class Reducer:
    """Reduces trees for one set of known values."""

    def __init__(
        self,
        environment: CelEnvironment,
        known: Mapping[str, Value],
        unknown: frozenset[str],
        style: LiteralStyle,
    ) -> None:
        self._environment = environment
        self._known = known
        self._unknown = unknown
        self._style = style
        self._named = frozenset(environment.variables) - unknown

    def reduce(self, tree: Expression, *, as_bool: bool = False) -> Reduced:
        """Return what is left of a tree; `as_bool` says that only a bool counts here."""
        if not uses(tree, self._unknown):
            known = self._evaluate(tree)
            if known is not None:
                return known
        if isinstance(tree, Call):
            return self._call(tree, as_bool=as_bool)
        return self._strict(tree)

    def _evaluate(self, tree: Expression) -> Reduced | None:
        """Return the outcome of a tree without unknown variables, None if it has no literal."""
        try:
            outcome = self._environment.compile_tree(tree).evaluate(self._known)
        except CelCompileError:
            # A literal of this style has the wrong static type: the next style will fit.
            return None
        if outcome.error is not None:
            return Failed()
        return Known(outcome.value) if render(outcome.value, self._style) is not None else None

    def _call(self, tree: Call, *, as_bool: bool) -> Reduced:
        if tree.function in ("_&&_", "_||_", "_?_:_"):
            return self._operator(tree, as_bool=as_bool)
        if tree.function == "@in" and tree.arguments[1] == ListLiteral(()):
            # The native evaluation folds it to false, and does not evaluate the operand.
            return Known(False)  # noqa: FBT003 - a value of the language
        if bound_names(tree):
            return self._macro(tree, as_bool=as_bool)
        if tree.function == "has" and tree.target is None:
            return self._has(tree)
        if tree.function in _LAZY or tree.function in ("_[_]", "_[?_]"):
            return self._first_strict(tree)
        return self._strict(tree, as_bool=tree.function == "!_")

    def _operator(self, tree: Call, *, as_bool: bool) -> Reduced:
        if tree.function == "_?_:_":
            return self._choice(tree, as_bool=as_bool)
        terms = [self.reduce(term, as_bool=True) for term in tree.arguments]
        return _logical(tree.function, terms, as_bool=as_bool)

    def _choice(self, tree: Call, *, as_bool: bool) -> Reduced:
        condition = self.reduce(tree.arguments[0], as_bool=True)
        if isinstance(condition, Known) and isinstance(condition.value, bool):
            picked = self.reduce(tree.arguments[1 if condition.value else 2], as_bool=as_bool)
            return self._as_dyn(picked)
        if not isinstance(condition, Open):
            return Failed()
        branches = [
            self._expression(self.reduce(branch, as_bool=as_bool), branch)
            for branch in tree.arguments[1:]
        ]
        return Open(Call("_?_:_", (condition.tree, *branches)))

    def _as_dyn(self, reduced: Reduced) -> Reduced:
        # A choice between two types has the type dyn, which its branch alone has not.
        if isinstance(reduced, Open) and self._style is not LiteralStyle.PLAIN:
            return Open(Call("dyn", (reduced.tree,)))
        return reduced

    def _macro(self, tree: Call, *, as_bool: bool) -> Reduced:
        assert tree.target is not None
        source = self.reduce(tree.target)
        if isinstance(source, Failed):
            return source
        if isinstance(source, Known) and self._can_unroll(tree, source.value):
            return self._unrolled(tree, source.value, as_bool=as_bool)
        names = bound_names(tree)
        inner = Reducer(
            self._environment,
            {name: value for name, value in self._known.items() if name not in names},
            self._unknown | set(names),
            self._style,
        )
        bodies = [
            inner._expression(inner.reduce(body), body) for body in tree.arguments[len(names) :]
        ]
        target = self._expression(source, tree.target)
        return Open(Call(tree.function, (*tree.arguments[: len(names)], *bodies), target))

    def _can_unroll(self, tree: Call, value: Value) -> bool:
        return (
            tree.function in ("all", "exists")
            and len(bound_names(tree)) == 1
            and isinstance(value, list)
            and len(value) <= MOST_UNROLLED
        )

    def _unrolled(self, tree: Call, value: Value, *, as_bool: bool) -> Reduced:
        assert isinstance(value, list)
        name, body = bound_names(tree)[0], tree.arguments[-1]
        terms: list[Reduced] = []
        for element in value:
            literal = render(element, self._style)
            assert literal is not None
            terms.append(self.reduce(substitute(body, name, literal), as_bool=True))
        return _logical("_&&_" if tree.function == "all" else "_||_", terms, as_bool=as_bool)

    def _has(self, tree: Call) -> Reduced:
        selection = tree.arguments[0]
        assert isinstance(selection, Select)
        operand = self.reduce(selection.operand)
        if isinstance(operand, Failed):
            return operand
        inner = self._expression(operand, selection.operand)
        return self._again(Call("has", (Select(inner, selection.field_name),)), [operand])

    def _first_strict(self, tree: Call) -> Reduced:
        """Reduce a call whose later operands may remain unevaluated."""
        parts = operands(tree)
        reduced = [self.reduce(part) for part in parts]
        if isinstance(reduced[0], Failed):
            return reduced[0]
        return self._rebuilt(tree, reduced)

    def _strict(self, tree: Expression, *, as_bool: bool = False) -> Reduced:
        reduced = [self.reduce(part, as_bool=as_bool) for part in operands(tree)]
        if any(isinstance(part, Failed) for part in reduced):
            return Failed()
        return self._rebuilt(tree, reduced)

    def _rebuilt(self, tree: Expression, reduced: list[Reduced]) -> Reduced:
        parts = [
            self._expression(part, original)
            for part, original in zip(reduced, operands(tree), strict=True)
        ]
        return self._again(with_children(tree, parts), reduced)

    def _again(self, tree: Expression, reduced: list[Reduced]) -> Reduced:
        # A choice by a known condition can leave a node without unknown operands.
        if reduced and not any(isinstance(part, Open) for part in reduced):
            return self._evaluate(tree) or Open(tree)
        return Open(tree)

    def _expression(self, reduced: Reduced, original: Expression) -> Expression:
        if isinstance(reduced, Open):
            return reduced.tree
        if isinstance(reduced, Failed):
            return ERROR_LITERAL
        if not uses(original, self._named):
            # A constant stays as it is written, and with it its static type.
            return original
        rendered = render(reduced.value, self._style)
        assert rendered is not None
        is_dyn = isinstance(original, Call) and original.function == "dyn"
        return Call("dyn", (rendered,)) if is_dyn else rendered


def _logical(function: str, terms: list[Reduced], *, as_bool: bool) -> Reduced:
    deciding = function == "_||_"
    if _is_decided(terms, deciding=deciding):
        return Known(deciding)
    left = _undecided(terms)
    if not left:
        return Known(not deciding)
    if left == [ERROR_LITERAL]:
        return Failed()
    if len(left) > 1:
        return Open(Call(function, tuple(left)))
    if as_bool:
        return Open(left[0])
    # Elsewhere a value that is no bool would pass, where the operator gives an error.
    return Open(Call(function, (Literal(not deciding), left[0])))


def _undecided(terms: list[Reduced]) -> list[Expression]:
    """Return the trees of open terms, and one error literal for all that fail."""
    left: list[Expression] = []
    for term in terms:
        if isinstance(term, Open):
            left.append(term.tree)
        elif isinstance(term, Failed) or not isinstance(term.value, bool):
            left.append(ERROR_LITERAL)
    return [
        part for index, part in enumerate(left) if part != ERROR_LITERAL or part not in left[:index]
    ]


def _is_decided(terms: list[Reduced], *, deciding: bool) -> bool:
    # Compared by identity: in Python `1 == True`.
    return any(isinstance(term, Known) and term.value is deciding for term in terms)
