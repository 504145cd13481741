"""Declared functions: each overload with its types, from the tables beside this module."""

from dataclasses import dataclass

from proxy.core.cel.checking.libraries import LIBRARIES
from proxy.core.cel.checking.operators import OPERATORS
from proxy.core.cel.checking.standard import STANDARD
from proxy.core.cel.checking.types import CelType, TypeKind, parse_type


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    identifier: str
    is_member: bool
    arguments: tuple[CelType, ...]
    result: CelType
    parameters: tuple[CelType, ...]


def _parameters(types: tuple[CelType, ...]) -> tuple[CelType, ...]:
    found: dict[CelType, None] = {}
    for given in types:
        if given.kind is TypeKind.PARAMETER:
            found[given] = None
        found.update(dict.fromkeys(_parameters(given.parameters)))
    return tuple(found)


_SHORT = {
    "pb.": "google.protobuf.",
    "authz.": "kubernetes.authorization.",
    "opt(": "optional_type(",
    "sortByKeys": "sortByAssociatedKeys",
}


def _long(text: str) -> str:
    for short, full in _SHORT.items():
        text = text.replace(short, full)
    return text


def _read(tables: tuple[str, ...]) -> dict[str, tuple[Overload, ...]]:
    functions: dict[str, list[Overload]] = {}
    for line in "".join(tables).splitlines():
        name, identifier, style, texts, result_text = line.split(" | ")
        arguments = tuple([parse_type(_long(text)) for text in texts.split(";") if text])
        result = parse_type(_long(result_text))
        parameters = _parameters((*arguments, result))
        overload = Overload(_long(identifier), style == "m", arguments, result, parameters)
        functions.setdefault(name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in functions.items()}


FUNCTIONS = _read((OPERATORS, STANDARD, LIBRARIES))

TYPE_NAMES: dict[str, CelType] = {
    name: parse_type(text)
    for name, text in {
        "bool": "bool",
        "bytes": "bytes",
        "double": "double",
        "google.protobuf.Duration": "google.protobuf.Duration",
        "int": "int",
        "list": "list(<A>)",
        "map": "map(<A>, <B>)",
        "null_type": "null_type",
        "string": "string",
        "google.protobuf.Timestamp": "google.protobuf.Timestamp",
        "type": "type",
        "uint": "uint",
        "optional_type": "optional_type(<A>)",
        "net.IP": "net.IP",
        "net.CIDR": "net.CIDR",
    }.items()
}
