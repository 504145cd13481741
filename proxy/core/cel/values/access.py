"""Selection of fields and elements from values."""

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.go_numbers import format_general
from proxy.core.cel.values.kinds import INT_MAX, INT_MIN, Uint, Value, type_name
from proxy.core.cel.values.maps import find

_KEY_TYPES = (bool, int, float, str, Uint)


def is_key(value: Value) -> bool:
    """Return whether a value may select from a map or list."""
    return isinstance(value, _KEY_TYPES)


def select(source: Value, key: Value) -> Value:
    """Return the member of a value; raises CelEvaluationError where there is none."""
    if isinstance(source, dict):
        found, value = find(source, key)
        if found:
            return value
    elif isinstance(source, list):
        index = _index(key)
        if 0 <= index < len(source):
            return source[index]
        raise CelEvaluationError(f"index out of bounds: {shown(key)}")
    raise CelEvaluationError(f"no such key: {shown(key)}")


def select_if_present(source: Value, key: Value) -> tuple[bool, Value]:
    """Return whether a value has a member, and the member.

    A scalar has none. A list accepts only a number, everything else is an error.
    """
    if isinstance(source, dict):
        return find(source, key)
    if isinstance(source, list):
        index = _index(key)
        if 0 <= index < len(source):
            return True, source[index]
    return False, None


def _index(key: Value) -> int:
    if type(key) is int:
        return key
    if isinstance(key, float):
        if key.is_integer() and INT_MIN < key < INT_MAX:
            return int(key)
        raise CelEvaluationError(f"unsupported index value {shown(key)} in list")
    if isinstance(key, Uint):
        if key.value <= INT_MAX:
            return key.value
        raise CelEvaluationError(f"unsupported index value {shown(key)} in list")
    raise CelEvaluationError(f"unsupported index type '{type_name(key)}' in list")


def shown(key: Value) -> str:
    """Return a key as error messages show it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, Uint):
        return str(key.value)
    return format_general(key) if isinstance(key, float) else str(key)


def contains(container: Value, item: Value) -> bool | None:
    """Return whether a map has a key, None for a value that is no map."""
    return find(container, item)[0] if isinstance(container, dict) else None
