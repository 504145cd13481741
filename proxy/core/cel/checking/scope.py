"""Names in scope: variables of the environment, local variables of macros, types.

A qualified name such as `a.b.c` is tried as a whole first, from the innermost container outwards.
"""

from dataclasses import dataclass

from proxy.core.cel.checking.declarations import TYPE_NAMES
from proxy.core.cel.checking.types import CelType, type_of


@dataclass(frozen=True, slots=True)
class VariableReference:
    """A name that stands for a variable; a local one belongs to the innermost loop that has it."""

    name: str
    is_local: bool


@dataclass(frozen=True, slots=True)
class TypeReference:
    """A name that stands for a type."""

    name: str


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """What a name stands for, and its type."""

    reference: VariableReference | TypeReference
    type: CelType


class Scope:
    """The names that an expression may use."""

    def __init__(self, variables: dict[str, CelType], container: str = "") -> None:
        self._variables = variables
        self._container = container
        self._locals: list[dict[str, CelType]] = []

    def enter(self, **names: CelType) -> None:
        """Open a scope of local variables."""
        self._locals.append(names)

    def declare(self, name: str, given: CelType) -> None:
        """Add a local variable to the innermost scope."""
        self._locals[-1][name] = given

    def leave(self) -> None:
        """Close the innermost scope."""
        self._locals.pop()

    def candidates(self, name: str) -> list[str]:
        """Return the full names that a name may stand for, the most specific first."""
        if name.startswith("."):
            return [name[1:]]
        parts = self._container.split(".") if self._container else []
        prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
        return [*(f"{prefix}.{name}" for prefix in prefixes), name]

    def resolve(self, name: str) -> ResolvedName | None:
        """Return what a simple or qualified name stands for, or None."""
        first = name.removeprefix(".").split(".")[0]
        if not name.startswith("."):
            local = self._local(first)
            if local is not None:
                # A field of a local variable is selected, it is not a qualified name.
                return None if first != name else self._local_name(name, local)
        for candidate in self.candidates(name):
            if candidate in self._variables:
                reference = VariableReference(candidate, is_local=False)
                return ResolvedName(reference, self._variables[candidate])
            if candidate in TYPE_NAMES:
                described = type_of(TYPE_NAMES[candidate])
                return ResolvedName(TypeReference(candidate), described)
        return None

    def _local_name(self, name: str, given: CelType) -> ResolvedName:
        return ResolvedName(VariableReference(name, is_local=True), given)

    def _local(self, name: str) -> CelType | None:
        for names in reversed(self._locals):
            if name in names:
                return names[name]
        return None
