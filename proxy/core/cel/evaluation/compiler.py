"""Compiler: a checked tree to closures.

Constants are folded as the native program construction folds them: literals of constants and
conversions of constants. A conversion that fails makes the whole expression unusable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from proxy.core.cel.checking.checker import CallReference, CheckedTree
from proxy.core.cel.checking.scope import TypeReference, VariableReference
from proxy.core.cel.errors import CelCompileError, CelEvaluationError
from proxy.core.cel.evaluation.attributes import (
    Attribute,
    ChoiceAttribute,
    PathAttribute,
    Qualifier,
    attribute_step,
    qualified,
)
from proxy.core.cel.evaluation.calls import call, equality
from proxy.core.cel.evaluation.folds import FoldPlan, append_step, fold, local
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.evaluation.literals import list_step, map_step, membership_step
from proxy.core.cel.evaluation.logic import (
    logical,
    logical_not,
    not_strictly_false,
    optional_or,
)
from proxy.core.cel.evaluation.patterns import pattern_call
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Select,
)
from proxy.core.cel.values.access import is_key
from proxy.core.cel.values.kinds import TypeName, Value

_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_PATTERNS = frozenset(("matches", "find", "findAll"))
_ACCUMULATOR = "@result"


@dataclass(frozen=True, slots=True)
class _Constant:
    """A value known when the program is built; it has no cost."""

    value: Value


_Plan = _Constant | PathAttribute | ChoiceAttribute | Step


@dataclass(frozen=True, slots=True)
class CompiledTree:
    """The closure of a tree and the number of local slots that it needs."""

    step: Step
    slots: int


def compile_tree(checked: CheckedTree) -> CompiledTree:
    """Return the closure of a checked tree; raises CelCompileError."""
    compiler = _Compiler(checked)
    step = compiler.step(checked.tree)
    return CompiledTree(step, compiler.slots)


def _as_step(plan: _Plan) -> Step:
    if isinstance(plan, _Constant):
        value = plan.value
        return lambda _: value
    if isinstance(plan, (PathAttribute, ChoiceAttribute)):
        return attribute_step(plan)
    return plan


def _as_attribute(plan: _Plan) -> Attribute:
    if isinstance(plan, (PathAttribute, ChoiceAttribute)):
        return plan
    return PathAttribute(_as_step(plan))


class _Compiler:
    """One pass over a checked tree."""

    def __init__(self, checked: CheckedTree) -> None:
        self._references = checked.references
        self._scopes: list[dict[str, int]] = []
        self.slots = 0

    def step(self, tree: Expression) -> Step:
        return _as_step(self._plan(tree))

    def _plan(self, tree: Expression) -> _Plan:
        match tree:
            case Literal():
                return _Constant(tree.value)
            case Ident() | Select():
                return self._path(tree)
            case Call():
                return self._call(tree)
            case ListLiteral() | MapLiteral():
                return self._aggregate(tree)
            case Fold():
                return fold(self._fold(tree))
            case MessageLiteral():
                raise CelCompileError("there are no message types", tree.offset)

    def _path(self, tree: Ident | Select) -> _Plan:
        if isinstance(tree, Ident) or id(tree) in self._references:
            return self._name(tree)
        operand = _as_attribute(self._plan(tree.operand))
        return qualified(operand, Qualifier(tree.field_name, is_test=tree.test_only))

    def _aggregate(self, tree: ListLiteral | MapLiteral) -> _Plan:
        return self._list(tree) if isinstance(tree, ListLiteral) else self._map(tree)

    def _name(self, tree: Ident | Select) -> _Plan:
        reference = self._references[id(tree)]
        if isinstance(reference, TypeReference):
            return _Constant(TypeName(reference.name))
        assert isinstance(reference, VariableReference)
        if reference.is_local:
            return PathAttribute(local(self._slot(reference.name)))
        return PathAttribute(_variable(reference.name), variable=reference.name)

    def _slot(self, name: str) -> int:
        return next(scope[name] for scope in reversed(self._scopes) if name in scope)

    def _call(self, tree: Call) -> _Plan:
        reference = self._references[id(tree)]
        assert isinstance(reference, CallReference)
        operands = tree.arguments
        if reference.has_target and tree.target is not None:
            operands = (tree.target, *operands)
        match reference.function:
            case "_?_:_":
                return self._choice(operands)
            case "_[_]" | "_[?_]" | "_?._":
                return self._index(operands, is_optional=reference.function != "_[_]")
            case "_+_" if self._builds_list(operands):
                return self._append(operands)
            case _:
                return self._plain_call(reference, operands, tree)

    def _plain_call(
        self, reference: CallReference, operands: tuple[Expression, ...], tree: Call
    ) -> _Plan:
        plans = [self._plan(operand) for operand in operands]
        function = reference.function
        if function in _CONVERSIONS and isinstance(plans[0], _Constant):
            return self._folded(reference, plans[0], tree)
        if function == "@in" and reference.overloads == ("in_list",):
            found = _membership(plans)
            if found is not None:
                return found
        steps = tuple([_as_step(plan) for plan in plans])
        special = _special(function, steps)
        if special is not None:
            return special
        pattern = plans[1].value if function in _PATTERNS and _is_constant(plans[1]) else None
        if isinstance(pattern, str):
            return pattern_call(function, pattern, steps, tree.offset)
        return call(function, reference.overloads, steps)

    def _folded(self, reference: CallReference, argument: _Constant, tree: Call) -> _Plan:
        step = call(reference.function, reference.overloads, (_as_step(argument),))
        try:
            return _Constant(step(Frame({}, 0, 0)))
        except CelEvaluationError as error:
            raise CelCompileError(error.message, tree.offset) from error

    def _choice(self, operands: tuple[Expression, ...]) -> _Plan:
        condition, chosen, other = [self._plan(operand) for operand in operands]
        return ChoiceAttribute(_as_step(condition), _as_attribute(chosen), _as_attribute(other))

    def _index(self, operands: tuple[Expression, ...], *, is_optional: bool) -> _Plan:
        attribute = _as_attribute(self._plan(operands[0]))
        key = self._plan(operands[1])
        if isinstance(key, _Constant):
            if not is_key(key.value):
                raise CelCompileError("invalid qualifier type", operands[1].offset)
            return qualified(attribute, Qualifier(key.value, is_optional=is_optional))
        computed = _resolved_key(key)
        return qualified(attribute, Qualifier(computed=computed, is_optional=is_optional))

    def _builds_list(self, operands: tuple[Expression, ...]) -> bool:
        left, right = operands
        return (
            isinstance(left, Ident)
            and left.name == _ACCUMULATOR
            and isinstance(right, ListLiteral)
            and len(right.elements) == 1
        )

    def _append(self, operands: tuple[Expression, ...]) -> _Plan:
        added = operands[1]
        assert isinstance(added, ListLiteral)
        element = self._plan(added.elements[0])
        cost = 0 if isinstance(element, _Constant) else 10
        return append_step(self.step(operands[0]), _as_step(element), cost)

    def _list(self, tree: ListLiteral) -> _Plan:
        plans = [self._plan(element) for element in tree.elements]
        steps = tuple([_as_step(plan) for plan in plans])
        step = list_step(steps, tree.optional)
        return _constant_literal(step, plans) or step

    def _map(self, tree: MapLiteral) -> _Plan:
        plans = [self._plan(part) for entry in tree.entries for part in (entry.key, entry.value)]
        steps = tuple([_as_step(plan) for plan in plans])
        optional = [entry.optional for entry in tree.entries]
        step = map_step(tuple(zip(steps[::2], steps[1::2], optional, strict=True)))
        return _constant_literal(step, plans) or step

    def _fold(self, tree: Fold) -> FoldPlan:
        initial = self._plan(tree.initial)
        source = self.step(tree.iteration_range)
        accumulator, first = self.slots, self.slots + 1
        second = self.slots + 2 if tree.second_variable else -1
        self.slots += 3
        self._scopes.append({tree.accumulator: accumulator})
        self._scopes.append(
            {tree.variable: first} | ({tree.second_variable: second} if second > 0 else {})
        )
        always = isinstance(tree.condition, Literal) and tree.condition.value is True
        condition = None if always else self.step(tree.condition)
        step = self.step(tree.step)
        self._scopes.pop()
        result = self.step(tree.result)
        self._scopes.pop()
        return FoldPlan(
            source, _as_step(initial), isinstance(initial, _Constant), condition, step, result,
            accumulator, first, second,
        )  # fmt: skip


def _variable(name: str) -> Step:
    def step(frame: Frame) -> Value:
        try:
            return frame.variables[name]
        except KeyError:
            raise CelEvaluationError(f"no such attribute(s): {name}") from None

    return step


def _resolved_key(key: _Plan) -> Step:
    # A key that is an attribute costs only its selections.
    if isinstance(key, (PathAttribute, ChoiceAttribute)):
        from_attribute = attribute_step(key)
        own = int(isinstance(key, PathAttribute)) - int(key.is_test)

        def step(frame: Frame) -> Value:
            frame.cost -= own
            return from_attribute(frame)

        return step
    return _as_step(key)


def _is_constant(plan: _Plan) -> TypeGuard[_Constant]:
    return isinstance(plan, _Constant)


def _constant_literal(step: Step, plans: list[_Plan]) -> _Constant | None:
    if not all(isinstance(plan, _Constant) for plan in plans):
        return None
    try:
        return _Constant(step(Frame({}, 0, 0)))
    except CelEvaluationError:
        return None


def _membership(plans: list[_Plan]) -> _Plan | None:
    item, source = plans
    if not isinstance(source, _Constant) or not isinstance(source.value, list):
        return None
    if not source.value:
        return _Constant(False)  # noqa: FBT003 - a value of the language
    return membership_step(_as_step(item), source.value)


def _special(function: str, steps: tuple[Step, ...]) -> Step | None:
    make = _SPECIAL.get(function)
    return None if make is None else make(steps)


_SPECIAL: dict[str, Callable[[tuple[Step, ...]], Step]] = {
    "_&&_": lambda steps: logical(steps, deciding=False),
    "_||_": lambda steps: logical(steps, deciding=True),
    "!_": lambda steps: logical_not(steps[0]),
    "@not_strictly_false": lambda steps: not_strictly_false(steps[0]),
    "_==_": lambda steps: equality(steps[0], steps[1], negated=False),
    "_!=_": lambda steps: equality(steps[0], steps[1], negated=True),
    "or": lambda steps: optional_or(steps[0], steps[1], unwrap=False),
    "orValue": lambda steps: optional_or(steps[0], steps[1], unwrap=True),
}
