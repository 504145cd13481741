"""Named formats: why a text is not valid, or nothing."""

import re
from collections.abc import Callable, Sequence

from proxy.core.cel.errors import no_such_overload
from proxy.core.cel.library.arguments import Implementation, text_of
from proxy.core.cel.library.kubernetes.url import parse_request_uri
from proxy.core.cel.values.go_times import parse_timestamp
from proxy.core.cel.values.kinds import NONE, NamedFormat, OptionalValue, Timestamp, Value

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_OLD_LABEL_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_NAME_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII
)
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII
)
_LABEL_LENGTH, _SUBDOMAIN_LENGTH = 63, 253


def _pattern_error(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join([f"'{example}', " for example in examples])
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    # Bytes are counted; the older of the two native packages calls them characters.
    is_long = len(text.encode("utf-8", "surrogatepass")) > limit
    return [f"must be no more than {limit} {unit}"] if is_long else []


def _label(text: str) -> list[str]:
    errors = _too_long(text, _LABEL_LENGTH)
    if _matches(_LABEL, text):
        return errors
    if _matches(_SUBDOMAIN, text):
        return [*errors, "must not contain dots"]
    return [*errors, _pattern_error(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc")]


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    errors = _too_long(text, _SUBDOMAIN_LENGTH, unit)
    if _matches(_SUBDOMAIN, text):
        return errors
    return [*errors, _pattern_error(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com")]


def _old_label(text: str) -> list[str]:
    errors = _too_long(text, _LABEL_LENGTH)
    if _matches(_OLD_LABEL, text):
        return errors
    return [*errors, _pattern_error(_OLD_LABEL_MESSAGE, _OLD_LABEL, "my-name", "abc-123")]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(text: str) -> list[str]:
    examples = ("MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > len(("prefix", "name")):
        error = _pattern_error(_NAME_MESSAGE, _NAME, *examples)
        return [
            f"a valid label key {error} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    errors: list[str] = []
    for prefix in parts[:-1]:
        messages = _subdomain(prefix, "bytes") if prefix else ["must be non-empty"]
        errors += [f"prefix part {message}" for message in messages]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    errors += [f"name part {message}" for message in _too_long(name, _LABEL_LENGTH, "bytes")]
    if not _matches(_NAME, name):
        errors.append(f"name part {_pattern_error(_NAME_MESSAGE, _NAME, *examples)}")
    return errors


def _label_value(text: str) -> list[str]:
    errors = _too_long(text, _LABEL_LENGTH, "bytes")
    if _matches(f"({_NAME})?", text):
        return errors
    error = _pattern_error(_VALUE_MESSAGE, f"({_NAME})?", "MyValue", "my_value", "12345")
    return [*errors, error]


def _is_date(text: str) -> bool:
    parsed = parse_timestamp(f"{text}T00:00:00Z")
    return isinstance(parsed, Timestamp) or parsed == "timestamp overflow"


def _is_datetime(text: str) -> bool:
    date, separator, time = text.lower().partition("t")
    found = _TIME.fullmatch(time.split("t")[0])
    if not separator or not _is_date(date) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _tested(test: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [message]


_CHECKS: dict[str, tuple[str, int, Callable[[str], list[str]]]] = {
    "dns1123Label": ("DNS1123Label", 30, _label),
    "dns1123Subdomain": ("DNS1123Subdomain", 60, _subdomain),
    "dns1035Label": ("DNS1035Label", 30, _old_label),
    "qualifiedName": ("QualifiedName", 60, _qualified_name),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", 30, _prefix(_label)),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", 60, _prefix(_subdomain)),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", 30, _prefix(_old_label)),
    "labelValue": ("LabelValue", 40, _label_value),
    "uri": ("URI", 1103, _tested(lambda text: parse_request_uri(text) is not None, "invalid URI")),
    "uuid": (
        "uuid",
        70,
        _tested(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"),
    ),
    "byte": ("byte", 84, _tested(lambda text: bool(_BASE64.fullmatch(text)), "invalid base64")),
    "date": ("date", 71, _tested(_is_date, "invalid date")),
    "datetime": ("datetime", 71, _tested(_is_datetime, "invalid datetime")),
}
_FORMATS = {key: NamedFormat(name, size, key) for key, (name, size, _) in _CHECKS.items()}


def _constant(named: NamedFormat) -> Implementation:
    return lambda _: named


def _named(values: Sequence[Value]) -> Value:
    found = _FORMATS.get(text_of(values[0]))
    return NONE if found is None else OptionalValue(found)


def _validate(values: Sequence[Value]) -> Value:
    named = values[0]
    if not isinstance(named, NamedFormat):
        raise no_such_overload()
    errors = _CHECKS[named.key][2](text_of(values[1]))
    return OptionalValue(errors) if errors else NONE


OVERLOADS: dict[str, Implementation] = {
    "format-named": _named,
    "format-validate": _validate,
    **{f"format.{key}": _constant(named) for key, named in _FORMATS.items()},
}
