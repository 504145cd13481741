"""Semantic versions."""

from collections.abc import Callable, Sequence

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, argument_at, text_of
from proxy.core.cel.values.kinds import UINT_MAX, Semver, Value

_PARTS, _MOST_DIGITS = 3, 20
_DIGITS = frozenset("0123456789")
_ALPHANUMERIC = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


def parse_semver(text: str, *, normalize: bool = False) -> Semver:
    """Return the version of a text; raises CelEvaluationError."""
    if normalize:
        text = _normalized(text)
    if not text:
        raise CelEvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != _PARTS:
        raise CelEvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre_release = rest.partition("-")
    return Semver(
        major,
        minor,
        _number(patch, "patch"),
        tuple(map(_pre_release, pre_release.split("."))) if dash else (),
        tuple(map(_build, build.split("."))) if plus else (),
    )


def _number(text: str, name: str) -> int:
    if not _DIGITS.issuperset(text):
        raise CelEvaluationError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise CelEvaluationError(f'{name} number must not contain leading zeroes "{text}"')
    if not text or len(text) > _MOST_DIGITS or int(text) > UINT_MAX:
        raise CelEvaluationError(f'strconv.ParseUint: parsing "{text}": invalid')
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise CelEvaluationError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        return _number(text, "Numeric PreRelease")
    if not _ALPHANUMERIC.issuperset(text):
        raise CelEvaluationError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _build(text: str) -> str:
    if not text or not _ALPHANUMERIC.issuperset(text):
        raise CelEvaluationError("Build meta data is empty or has invalid characters")
    return text


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            if not stripped or stripped[0] not in _DIGITS:
                stripped = f"0{stripped}"
            parts[index] = stripped
    if len(parts) < _PARTS:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelEvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (_PARTS - len(parts))
    return ".".join(parts)


def compare_semver(left: Semver, right: Semver) -> int:
    """Return -1, 0 or 1; build metadata does not count."""
    first = (left.major, left.minor, left.patch)
    second = (right.major, right.minor, right.patch)
    if first != second:
        return 1 if first > second else -1
    if not left.pre_release or not right.pre_release:
        return bool(right.pre_release) - bool(left.pre_release)
    one = [_rank(part) for part in left.pre_release]
    other = [_rank(part) for part in right.pre_release]
    return (one > other) - (one < other)


def _rank(part: int | str) -> tuple[int, int, str]:
    return (0, part, "") if isinstance(part, int) else (1, 0, part)


def _of(values: Sequence[Value]) -> Semver:
    normalize = argument_at(values, 1, False)  # noqa: FBT003 - a value of the language
    return parse_semver(text_of(values[0]), normalize=normalize is True)


def _is(values: Sequence[Value]) -> Value:
    try:
        _of(values)
    except CelEvaluationError:
        return False
    return True


def _version(value: Value) -> Semver:
    if isinstance(value, Semver):
        return value
    raise no_such_overload()


def _compare(answer: Callable[[int], Value]) -> Implementation:
    return lambda values: answer(compare_semver(_version(values[0]), _version(values[1])))


OVERLOADS: dict[str, Implementation] = {
    "string_to_semver": _of,
    "string_bool_to_semver": _of,
    "is_semver_string": _is,
    "is_semver_string_bool": _is,
    "semver_major": lambda values: _version(values[0]).major,
    "semver_minor": lambda values: _version(values[0]).minor,
    "semver_patch": lambda values: _version(values[0]).patch,
    "semver_compare_to": _compare(lambda order: order),
    "semver_is_greater_than": _compare(lambda order: order > 0),
    "semver_is_less_than": _compare(lambda order: order < 0),
}
