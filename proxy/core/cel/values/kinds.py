"""Values that JSON has no form for, and the names of run-time types.

JSON values stand for themselves: None, bool, int (64 bits), float, str, list and dict. A dict may
have other keys than text: `values.maps` says how those are stored.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

# Any value of an expression. The classes below are what it can be besides a JSON value.
Value: TypeAlias = object

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Uint:
    """An unsigned 64-bit integer."""

    value: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds, within 64 bits."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """An instant in nanoseconds since 1970 UTC; the offset matters only for its text."""

    nanoseconds: int
    offset_seconds: int = 0


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """A value or nothing; `NONE` is the one without."""

    value: Value
    has_value: bool = True


NONE = OptionalValue(None, has_value=False)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class IpAddress:
    """An IPv4 or IPv6 address without a zone."""

    number: int
    bits: int


@dataclass(frozen=True, slots=True)
class Cidr:
    """An address with a prefix length."""

    address: IpAddress
    prefix: int


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL; two are equal if their texts are."""

    scheme: str
    host: str
    escaped_path: str
    raw_query: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A Kubernetes quantity: a number times a power of ten."""

    value: int
    scale: int
    # Whether the native code holds it as a big decimal, which is then never an integer.
    is_decimal: bool = False
    # A sum or difference: the native comparison accepts it on the left only.
    is_computed: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        scale = min(self.scale, other.scale)
        left = self.value * 10 ** (self.scale - scale)
        right = other.value * 10 ** (other.scale - scale)
        return bool(left == right)

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[int | str, ...] = ()
    # Has no part in comparisons.
    build: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format with a name; `regex_size` is the assumed length of its pattern for the cost."""

    name: str
    regex_size: int
    key: str


_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    OptionalValue: "optional_type",
    TypeName: "type",
    IpAddress: "net.IP",
    Cidr: "net.CIDR",
    Url: "kubernetes.URL",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    NamedFormat: "kubernetes.NamedFormat",
}


def type_name(value: Value) -> str:
    """Return the name of a value's type."""
    return _NAMES.get(type(value), type(value).__name__)
