"""Functions on text: positions count code points."""

from collections.abc import Callable, Sequence

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.library.arguments import (
    Implementation,
    argument_at,
    int_of,
    limited_characters,
    list_argument,
    text_of,
)
from proxy.core.cel.values.kinds import Value

_SPACE = (
    "\t\n\v\f\r \x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {upper: lower for lower, upper in _UPPER.items()}
_QUOTES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> CelEvaluationError:
    return CelEvaluationError(f"index out of range: {index}")


def _char_at(values: Sequence[Value]) -> Value:
    text, index = text_of(values[0]), int_of(values[1])
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(values: Sequence[Value]) -> Value:
    text, part = text_of(values[0]), text_of(values[1])
    offset = int_of(argument_at(values, 2, 0))
    if offset < 0:
        raise _out_of_range(offset)
    return min(offset, len(text)) if not part else text.find(part, offset)


def _last_index_of(values: Sequence[Value]) -> Value:
    text, part = text_of(values[0]), text_of(values[1])
    given = argument_at(values, 2, None)
    if given is None:
        return len(text) if not part else text.rfind(part)
    offset = int_of(given)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(values: Sequence[Value]) -> Value:
    text, old, new = [text_of(value) for value in values[:3]]
    limit = int_of(argument_at(values, 3, -1))
    if limit == 0 or old == new:
        return text
    count = text.count(old)
    if limit > 0:
        count = min(count, limit)
    limited_characters(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def _split(values: Sequence[Value]) -> Value:
    text, separator = text_of(values[0]), text_of(values[1])
    limit = int_of(argument_at(values, 2, -1))
    if limit == 0:
        return []
    if not separator:
        return _characters(text, limit)
    return list(text.split(separator, limit - 1 if limit > 0 else -1))


def _characters(text: str, limit: int) -> Value:
    if limit < 0 or limit > len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(values: Sequence[Value]) -> Value:
    text, start = text_of(values[0]), int_of(values[1])
    given = argument_at(values, 2, None)
    if given is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    end = int_of(given)
    if start > end:
        raise CelEvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(values: Sequence[Value]) -> Value:
    separator = text_of(argument_at(values, 1, ""))
    parts: list[str] = []
    for value in list_argument(values[0]):
        if not isinstance(value, str):
            raise CelEvaluationError(f"join: invalid input: {value}")
        parts.append(value)
    limited_characters(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _quote(values: Sequence[Value]) -> Value:
    text = text_of(values[0])
    return f'"{"".join([_QUOTES.get(character, character) for character in text])}"'


def _text(change: Callable[[str], str]) -> Implementation:
    return lambda values: change(text_of(values[0]))


OVERLOADS: dict[str, Implementation] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "string_lower_ascii": _text(lambda text: text.translate(_LOWER)),
    "string_upper_ascii": _text(lambda text: text.translate(_UPPER)),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": _text(lambda text: text.strip(_SPACE)),
    "list_join": _join,
    "list_join_string": _join,
    "strings_quote": _quote,
}
