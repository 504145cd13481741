"""Type checker: which declared thing each name and call stands for.

The first error ends the check. The accepted expressions and their types are those of the native
checker. That literals are homogeneous is checked afterwards, by `evaluation.literal_checks`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from proxy.core.cel.checking.declarations import FUNCTIONS, Overload
from proxy.core.cel.checking.scope import Scope, TypeReference, VariableReference
from proxy.core.cel.checking.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    CelType,
    TypeKind,
    list_of,
    map_of,
    optional_of,
    parameter,
    unwrap_optional,
)
from proxy.core.cel.checking.unification import Substitutions, most_general
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.parser import qualified_name
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)

_LITERALS = {
    "bool": BOOL,
    "int": INT,
    "Uint": UINT,
    "float": DOUBLE,
    "str": STRING,
    "bytes": BYTES,
    "NoneType": NULL,
}
_ITERABLE_AS_DYN = frozenset((TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAMETER))


@dataclass(frozen=True, slots=True)
class CallReference:
    """The function that a call stands for and the overloads that its types allow."""

    function: str
    overloads: tuple[str, ...]
    # False where the target is part of the function's qualified name.
    has_target: bool


Reference: TypeAlias = VariableReference | TypeReference | CallReference


@dataclass(frozen=True, slots=True)
class CheckedTree:
    """An expanded tree with the type and the reference of each node, by the node's `id`."""

    tree: Expression
    types: dict[int, CelType]
    references: dict[int, Reference]

    @property
    def type(self) -> CelType:
        """Return the type of the whole expression."""
        return self.types[id(self.tree)]


def check(tree: Expression, scope: Scope) -> CheckedTree:
    """Return an expanded tree with its types; raises CelCompileError."""
    checker = _Checker(scope)
    checker.visit(tree)
    types = {
        node: checker.substitutions.resolve(given, free_as_dyn=True)
        for node, given in checker.types.items()
    }
    return CheckedTree(tree, types, checker.references)


class _Checker:
    """One pass over a tree."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.types: dict[int, CelType] = {}
        self.references: dict[int, Reference] = {}
        self.substitutions = Substitutions()
        self._free_types = 0

    def visit(self, tree: Expression) -> CelType:
        if isinstance(tree, (Literal, Ident, Select, Call)):
            found = self._simple(tree)
        elif isinstance(tree, ListLiteral):
            found = self._list(tree)
        elif isinstance(tree, MapLiteral):
            found = self._map(tree)
        elif isinstance(tree, Fold):
            found = self._fold(tree)
        else:
            raise _undeclared(tree.type_name, tree.offset)
        self.types[id(tree)] = found
        return found

    def _simple(self, tree: Literal | Ident | Select | Call) -> CelType:
        match tree:
            case Literal():
                return _LITERALS[tree.type_name]
            case Ident():
                return self._ident(tree)
            case Select():
                return self._select(tree)
            case Call():
                return self._call(tree)

    def _ident(self, tree: Ident) -> CelType:
        resolved = self._scope.resolve(tree.name)
        if resolved is None:
            raise _undeclared(tree.name, tree.offset)
        self.references[id(tree)] = resolved.reference
        return resolved.type

    def _select(self, tree: Select) -> CelType:
        name = qualified_name(tree)
        resolved = None if name is None else self._scope.resolve(name)
        if resolved is not None:
            self.references[id(tree)] = resolved.reference
            return resolved.type
        found = self._field(tree.operand, tree.offset, optional=False)
        return BOOL if tree.test_only else self.substitutions.resolve(found)

    def _field(self, operand: Expression, offset: int, *, optional: bool) -> CelType:
        operand_type = self.substitutions.resolve(self.visit(operand))
        target, is_optional = unwrap_optional(operand_type)
        found = DYN
        match target.kind:
            case TypeKind.MAP:
                found = target.parameters[1]
            case TypeKind.STRUCT:
                raise CelCompileError("undefined field", offset)
            case TypeKind.PARAMETER:
                self.substitutions.assign([DYN], [target])
            case TypeKind.DYN | TypeKind.ERROR:
                pass
            case _:
                raise CelCompileError(f"type '{target}' does not support field selection", offset)
        return optional_of(found) if is_optional or optional else found

    def _call(self, tree: Call) -> CelType:
        if tree.function == "_?._" and tree.target is None:
            found = self._field(tree.arguments[0], tree.offset, optional=True)
            self.visit(tree.arguments[1])
            self.references[id(tree)] = CallReference(
                tree.function, ("select_optional_field",), has_target=False
            )
            return self.substitutions.resolve(found)
        arguments = [self.visit(argument) for argument in tree.arguments]
        if tree.target is None:
            return self._global_call(tree, tree.function, arguments)
        prefix = qualified_name(tree.target)
        if prefix is not None and self._function(f"{prefix}.{tree.function}") is not None:
            return self._global_call(tree, f"{prefix}.{tree.function}", arguments)
        target = self.visit(tree.target)
        function = self._function(tree.function)
        if function is None:
            raise _undeclared(tree.function, tree.offset)
        return self._resolve(tree, function, [target, *arguments], has_target=True)

    def _global_call(self, tree: Call, name: str, arguments: list[CelType]) -> CelType:
        function = self._function(name)
        if function is None:
            raise _undeclared(name, tree.offset)
        return self._resolve(tree, function, arguments, has_target=False)

    def _function(self, name: str) -> str | None:
        for candidate in self._scope.candidates(name):
            if candidate in FUNCTIONS:
                return candidate
        return None

    def _resolve(
        self, tree: Call, function: str, arguments: list[CelType], *, has_target: bool
    ) -> CelType:
        if function in ("_&&_", "_||_"):
            return self._logical(tree, function, arguments)
        matching: list[str] = []
        result: CelType | None = None
        for overload in FUNCTIONS[function]:
            if overload.is_member is not has_target:
                continue
            found = self._match(overload, arguments)
            if found is None:
                continue
            matching.append(overload.identifier)
            if result is None:
                result = found
            elif result.kind is not TypeKind.DYN and found != result:
                result = DYN
        if result is None:
            raise self._no_overload(tree, function, arguments, has_target=has_target)
        self.references[id(tree)] = CallReference(function, tuple(matching), has_target)
        return result

    def _match(self, overload: Overload, arguments: list[CelType]) -> CelType | None:
        fresh = Substitutions()
        for type_parameter in overload.parameters:
            fresh.assign([self._free_type()], [type_parameter])
        wanted = [fresh.resolve(argument) for argument in overload.arguments]
        if not self.substitutions.assign(arguments, wanted):
            return None
        return self.substitutions.resolve(fresh.resolve(overload.result))

    def _logical(self, tree: Call, function: str, arguments: list[CelType]) -> CelType:
        for argument, given in zip(tree.arguments, arguments, strict=True):
            if not self.substitutions.assign([given], [BOOL]):
                raise self._mismatch(argument.offset, BOOL, given)
        overload = "logical_and" if function == "_&&_" else "logical_or"
        self.references[id(tree)] = CallReference(function, (overload,), has_target=False)
        return BOOL

    def _list(self, tree: ListLiteral) -> CelType:
        element_type: CelType | None = None
        for index, element in enumerate(tree.elements):
            given = self.visit(element)
            if index in tree.optional:
                given = self._unwrapped(given, element.offset)
            element_type = self._joined(element_type, given)
        return list_of(self._free_type() if element_type is None else element_type)

    def _map(self, tree: MapLiteral) -> CelType:
        key_type: CelType | None = None
        value_type: CelType | None = None
        for entry in tree.entries:
            key_type = self._joined(key_type, self.visit(entry.key))
            given = self.visit(entry.value)
            if entry.optional:
                given = self._unwrapped(given, entry.value.offset)
            value_type = self._joined(value_type, given)
        if key_type is None or value_type is None:
            return map_of(self._free_type(), self._free_type())
        return map_of(key_type, value_type)

    def _unwrapped(self, given: CelType, offset: int) -> CelType:
        inner, is_optional = unwrap_optional(given)
        if not is_optional and given.kind is not TypeKind.DYN:
            raise self._mismatch(offset, optional_of(given), given)
        return inner

    def _joined(self, previous: CelType | None, given: CelType) -> CelType:
        if previous is None:
            return given
        # Elements of different types make the element type dyn; a later check refuses most of them.
        if not self.substitutions.assign([previous], [given]):
            return DYN
        return most_general(previous, given)

    def _fold(self, tree: Fold) -> CelType:
        self.visit(tree.iteration_range)
        accumulator = self.visit(tree.initial)
        given = self.substitutions.resolve(self.types[id(tree.iteration_range)])
        self._scope.enter()
        self._scope.declare(tree.accumulator, accumulator)
        first, second = self._variables(tree, given)
        self._scope.enter()
        self._scope.declare(tree.variable, first)
        if tree.second_variable:
            self._scope.declare(tree.second_variable, second)
        self._expect(tree.condition, BOOL)
        self._expect(tree.step, accumulator)
        self._scope.leave()
        result = self.visit(tree.result)
        self._scope.leave()
        return self.substitutions.resolve(result)

    def _variables(self, tree: Fold, given: CelType) -> tuple[CelType, CelType]:
        if given.kind is TypeKind.LIST:
            element = given.parameters[0]
            return (INT, element) if tree.second_variable else (element, ERROR)
        if given.kind is TypeKind.MAP:
            return given.parameters[0], given.parameters[1]
        if given.kind in _ITERABLE_AS_DYN:
            self.substitutions.assign([DYN], [given])
            return DYN, DYN
        raise CelCompileError(
            f"expression of type '{given}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
            tree.iteration_range.offset,
        )

    def _expect(self, tree: Expression, wanted: CelType) -> None:
        given = self.visit(tree)
        if not self.substitutions.assign([wanted], [given]):
            raise self._mismatch(tree.offset, wanted, given)

    def _free_type(self) -> CelType:
        self._free_types += 1
        return parameter(f"_var{self._free_types}")

    def _mismatch(self, offset: int, wanted: CelType, given: CelType) -> CelCompileError:
        texts = [self.substitutions.resolve(part, free_as_dyn=True) for part in (wanted, given)]
        return CelCompileError(f"expected type '{texts[0]}' but found '{texts[1]}'", offset)

    def _no_overload(
        self, tree: Call, function: str, arguments: list[CelType], *, has_target: bool
    ) -> CelCompileError:
        texts = [str(self.substitutions.resolve(part, free_as_dyn=True)) for part in arguments]
        signature = f"({', '.join(texts)})"
        if has_target:
            signature = f"{texts[0]}.({', '.join(texts[1:])})"
        return CelCompileError(
            f"found no matching overload for '{function}' applied to '{signature}'", tree.offset
        )


def _undeclared(name: str, offset: int) -> CelCompileError:
    return CelCompileError(f"undeclared reference to '{name}' (in container '')", offset)
