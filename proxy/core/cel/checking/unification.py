"""Assignability of types, with the substitutions that it needs.

The rules are those of the native checker, including that null is assignable to timestamps,
durations and opaque types, and that dyn is assignable to and from everything.
"""

from proxy.core.cel.checking.types import DYN, CelType, TypeKind

_NULLABLE = frozenset((TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.WELL_KNOWN, TypeKind.NULL))
_ANYTHING = frozenset((TypeKind.DYN, TypeKind.ERROR))
_WITH_PARAMETERS = frozenset((TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP))


class Substitutions:
    """What each type parameter stands for. A failed attempt leaves no trace."""

    def __init__(self) -> None:
        self._types: dict[CelType, CelType] = {}

    def assign(self, given: list[CelType], wanted: list[CelType]) -> bool:
        """Return whether each type is assignable to its counterpart."""
        before = dict(self._types)
        if len(given) == len(wanted) and all(map(self._assignable, given, wanted)):
            return True
        self._types = before
        return False

    def resolve(self, given: CelType, *, free_as_dyn: bool = False) -> CelType:
        """Return a type with each parameter replaced; free ones stay or become dyn."""
        known = self._types.get(given)
        if known is not None:
            return self.resolve(known, free_as_dyn=free_as_dyn)
        if free_as_dyn and given.kind is TypeKind.PARAMETER:
            return DYN
        if not given.parameters:
            return given
        parameters = [self.resolve(part, free_as_dyn=free_as_dyn) for part in given.parameters]
        return CelType(given.kind, given.name, tuple(parameters))

    def _assignable(self, given: CelType, wanted: CelType) -> bool:
        if wanted.kind is TypeKind.PARAMETER:
            valid, known = self._substitute(given, wanted)
            if valid or known:
                return valid
        if given.kind is TypeKind.PARAMETER:
            return self._substitute(wanted, given)[0]
        if given.kind in _ANYTHING or wanted.kind in _ANYTHING:
            return True
        return self._concrete(given, wanted)

    def _concrete(self, given: CelType, wanted: CelType) -> bool:
        if TypeKind.NULL in (given.kind, wanted.kind):
            other = wanted if given.kind is TypeKind.NULL else given
            return other.kind in _NULLABLE
        if given.kind is TypeKind.TYPE:
            return wanted.kind is TypeKind.TYPE
        if given.kind in _WITH_PARAMETERS:
            return self._same_shape(given, wanted)
        return given == wanted

    def _same_shape(self, given: CelType, wanted: CelType) -> bool:
        return (
            given.kind is wanted.kind
            and given.name == wanted.name
            and len(given.parameters) == len(wanted.parameters)
            and all(map(self._assignable, given.parameters, wanted.parameters))
        )

    def _substitute(self, given: CelType, parameter: CelType) -> tuple[bool, bool]:
        """Return whether a type may stand for a parameter, and whether it already had a type."""
        if given == parameter:
            return True, True
        known = self._types.get(parameter)
        if known is None:
            if not self._may_hold(parameter, given):
                return False, False
            self._types[parameter] = given
            return True, False
        if given == known:
            return True, True
        if not self._assignable(given, known):
            return False, True
        general = most_general(given, known)
        if self._may_hold(parameter, general):
            self._types[parameter] = general
        return True, True

    def _may_hold(self, parameter: CelType, within: CelType) -> bool:
        if parameter == within:
            return False
        if within.kind is TypeKind.PARAMETER:
            known = self._types.get(within)
            return known is None or self._may_hold(parameter, known)
        return all(self._may_hold(parameter, part) for part in within.parameters)


def most_general(left: CelType, right: CelType) -> CelType:
    """Return the less specific of two types that unify."""
    return left if _is_less_specific(left, right) else right


def _is_less_specific(left: CelType, right: CelType) -> bool:
    if left.kind in (TypeKind.DYN, TypeKind.PARAMETER):
        return True
    if right.kind in (TypeKind.DYN, TypeKind.PARAMETER) or left.kind is not right.kind:
        return False
    if left.kind is TypeKind.TYPE:
        return True
    if left.kind not in _WITH_PARAMETERS:
        return left == right
    return (
        left.name == right.name
        and len(left.parameters) == len(right.parameters)
        and all(map(_is_less_specific, left.parameters, right.parameters))
    )
