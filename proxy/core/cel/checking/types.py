"""Types of the checker: how they are written, unified and shown."""

from dataclasses import dataclass
from enum import Enum


class TypeKind(Enum):
    """What a type is built from."""

    PRIMITIVE = "primitive"
    NULL = "null"
    DYN = "dyn"
    ERROR = "error"
    # Timestamp, duration and the opaque types of the libraries without parameters.
    WELL_KNOWN = "well-known"
    STRUCT = "struct"
    OPAQUE = "opaque"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class CelType:
    """A type with its parameters."""

    kind: TypeKind
    name: str
    parameters: "tuple[CelType, ...]" = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


BOOL = CelType(TypeKind.PRIMITIVE, "bool")
INT = CelType(TypeKind.PRIMITIVE, "int")
UINT = CelType(TypeKind.PRIMITIVE, "uint")
DOUBLE = CelType(TypeKind.PRIMITIVE, "double")
STRING = CelType(TypeKind.PRIMITIVE, "string")
BYTES = CelType(TypeKind.PRIMITIVE, "bytes")
NULL = CelType(TypeKind.NULL, "null_type")
DYN = CelType(TypeKind.DYN, "dyn")
ERROR = CelType(TypeKind.ERROR, "!error!")
TIMESTAMP = CelType(TypeKind.WELL_KNOWN, "google.protobuf.Timestamp")
DURATION = CelType(TypeKind.WELL_KNOWN, "google.protobuf.Duration")

_STRUCTS = (
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
)
_SIMPLE = {
    simple.name: simple
    for simple in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, TIMESTAMP, DURATION)
} | {name: CelType(TypeKind.STRUCT, name) for name in _STRUCTS}


def list_of(element: CelType) -> CelType:
    """Return the type of a list."""
    return CelType(TypeKind.LIST, "list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of a map."""
    return CelType(TypeKind.MAP, "map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of an optional value."""
    return CelType(TypeKind.OPAQUE, "optional_type", (value,))


def type_of(described: CelType) -> CelType:
    """Return the type of a type."""
    return CelType(TypeKind.TYPE, "type", (described,))


def parameter(name: str) -> CelType:
    """Return a type parameter."""
    return CelType(TypeKind.PARAMETER, name)


def unwrap_optional(given: CelType) -> tuple[CelType, bool]:
    """Return the type inside an optional type, and whether it was one."""
    if given.kind is TypeKind.OPAQUE and given.name == "optional_type":
        return given.parameters[0], True
    return given, False


def parse_type(text: str) -> CelType:
    """Return the type that a text such as `map(string, list(<A>))` stands for."""
    text = text.strip()
    if text.startswith("<"):
        return parameter(text[1:-1])
    if text in _SIMPLE:
        return _SIMPLE[text]
    name, bracket, rest = text.partition("(")
    if not bracket:
        return CelType(TypeKind.OPAQUE, name)
    parts = [parse_type(part) for part in _split(rest[:-1])]
    kinds = {"list": TypeKind.LIST, "map": TypeKind.MAP, "type": TypeKind.TYPE}
    return CelType(kinds.get(name, TypeKind.OPAQUE), name, tuple(parts))


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def is_equivalent(left: CelType, right: CelType) -> bool:
    """Return whether two types are equal up to the names of type parameters."""
    if left.kind is TypeKind.PARAMETER and right.kind is TypeKind.PARAMETER:
        return True
    return (
        left.kind is right.kind
        and left.name == right.name
        and len(left.parameters) == len(right.parameters)
        and all(map(is_equivalent, left.parameters, right.parameters))
    )
