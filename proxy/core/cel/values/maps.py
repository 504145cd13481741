"""Keys of maps.

In Python `True == 1 == 1.0`, in CEL a bool is no number. A dict therefore stores text and int keys
as they are and wraps every other key. A lookup of a number tries the other numeric types too.
"""

from dataclasses import dataclass

from proxy.core.cel.values.kinds import INT_MAX, INT_MIN, UINT_MAX, Uint, Value


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A key that is neither text nor int, told apart by its type."""

    type_name: str
    value: Value


class IdentityKey:
    """A key without an equality of its own, such as a list: found by no lookup."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def stored_key(key: Value) -> object:
    """Return a key as a dict stores it."""
    if type(key) is str or type(key) is int:
        return key
    if isinstance(key, (bool, float, Uint)) or key is None:
        return WrappedKey(type(key).__name__, key)
    return IdentityKey(key)


def key_value(stored: object) -> Value:
    """Return the value of a stored key."""
    if isinstance(stored, (WrappedKey, IdentityKey)):
        return stored.value
    return stored


def find(mapping: dict[object, Value], key: Value) -> tuple[bool, Value]:
    """Return whether a map has a key, and its value."""
    for candidate in _candidates(key):
        if candidate in mapping:
            return True, mapping[candidate]
    return False, None


def _candidates(key: Value) -> tuple[object, ...]:
    if type(key) is str:
        return (key,)
    if type(key) is int:
        others = [WrappedKey("float", float(key))]
        if key >= 0:
            others.append(WrappedKey("Uint", Uint(key)))
        return (key, *others)
    if isinstance(key, Uint):
        return (
            WrappedKey("Uint", key),
            *((key.value,) if key.value <= INT_MAX else ()),
            WrappedKey("float", float(key.value)),
        )
    if isinstance(key, float):
        return (WrappedKey("float", key), *_integral(key))
    if isinstance(key, bool) or key is None:
        return (WrappedKey(type(key).__name__, key),)
    return ()


def _integral(key: float) -> tuple[object, ...]:
    if not key.is_integer():
        return ()
    number = int(key)
    found: list[object] = []
    if INT_MIN < number < INT_MAX:
        found.append(number)
    if 0 <= number <= UINT_MAX:
        found.append(WrappedKey("Uint", Uint(number)))
    return tuple(found)
