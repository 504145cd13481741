"""Values as the oracle writes them: `["int","1"]`, `["list",[...]]`, `["map",[[key,value]]]`."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any, cast

from proxy.core.cel.library.kubernetes.network import address_text
from proxy.core.cel.values.go_times import format_timestamp, parse_timestamp
from proxy.core.cel.values.kinds import (
    NONE,
    Cidr,
    Duration,
    IpAddress,
    NamedFormat,
    OptionalValue,
    Quantity,
    Semver,
    Timestamp,
    TypeName,
    Uint,
    Url,
    Value,
)
from proxy.core.cel.values.maps import key_value, stored_key

Tagged = list[object]


def encode(value: Value) -> Tagged:
    """Return a value of the engine in the oracle's form."""
    if value is None:
        return ["null"]
    if isinstance(value, list):
        return ["list", [encode(element) for element in value]]
    if isinstance(value, dict):
        pairs = [[encode(key_value(key)), encode(member)] for key, member in value.items()]
        return ["map", sorted(pairs, key=_order)]
    if isinstance(value, OptionalValue):
        return ["optional", encode(value.value)] if value.has_value else ["optional"]
    name, write = _ENCODERS[type(value)]
    return [name, write(value)]


def _order(pair: list[Tagged]) -> str:
    # As Go's encoder writes it, which sorted the oracle's entries.
    return json.dumps(pair[0], separators=(",", ":"), ensure_ascii=False)


def number(value: float) -> str:
    """Return a double so that equal ones are written equally."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _semver(version: Semver) -> str:
    pre = f"-{'.'.join(map(str, version.pre_release))}" if version.pre_release else ""
    build = f"+{'.'.join(version.build)}" if version.build else ""
    return f"{version.major}.{version.minor}.{version.patch}{pre}{build}"


_ENCODERS: dict[type, tuple[str, Callable[[Any], object]]] = {
    bool: ("bool", bool),
    int: ("int", str),
    Uint: ("uint", lambda value: str(value.value)),
    float: ("double", number),
    str: ("string", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    Duration: ("duration", lambda value: str(value.nanoseconds)),
    Timestamp: ("timestamp", lambda value: format_timestamp(Timestamp(value.nanoseconds))),
    TypeName: ("type", lambda value: value.name),
    IpAddress: ("ip", address_text),
    Cidr: ("cidr", lambda value: f"{address_text(value.address)}/{value.prefix}"),
    Url: ("url", lambda value: value.text),
    Quantity: ("quantity", lambda value: str(quantity_text(value))),
    Semver: ("semver", _semver),
    NamedFormat: ("format", lambda value: value.name),
}


def quantity_text(quantity: Quantity) -> str:
    """Return a quantity as a plain number."""
    value, scale = quantity.value, quantity.scale
    while value and value % 10 == 0:
        value, scale = value // 10, scale + 1
    return f"{value}e{scale}" if value else "0"


def normalize(tagged: object) -> object:
    """Return the oracle's form of a value with its doubles written as `encode` writes them."""
    if not isinstance(tagged, list):
        return tagged
    if len(tagged) == 2 and tagged[0] == "double":
        return ["double", number(float(cast("str", tagged[1])))]
    return [normalize(part) for part in tagged]


_DECODERS: dict[str, Callable[[str], Value]] = {
    "int": int,
    "uint": lambda text: Uint(int(text)),
    "double": float,
    "string": str,
    "bytes": base64.b64decode,
    "duration": lambda text: Duration(int(text)),
    "timestamp": parse_timestamp,
    "type": TypeName,
}


def decode(tagged: Tagged) -> Value:
    """Return the value of the oracle's form."""
    kind = tagged[0]
    if kind == "null":
        return None
    if kind == "bool":
        return tagged[1]
    if kind == "list":
        return [decode(part) for part in cast("list[Tagged]", tagged[1])]
    if kind == "map":
        pairs = cast("list[tuple[Tagged, Tagged]]", tagged[1])
        return {stored_key(decode(key)): decode(member) for key, member in pairs}
    if kind == "optional":
        return NONE if len(tagged) == 1 else OptionalValue(decode(cast("Tagged", tagged[1])))
    return _DECODERS[str(kind)](str(tagged[1]))
