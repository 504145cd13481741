"""Setting types without a YAML equivalent: durations, file paths, addresses, servers."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema
from pydantic.alias_generators import to_camel


class StrictModel(BaseModel):
    """Base of all settings: frozen, rejects unknown keys, coerces nothing."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}")
_MAX_SECONDS = 8760 * 3600.0
_HTTPS_PORT = 443


def _parse_duration(value: object) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError("must be a duration such as 10s, 1m30s or 500ms")
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    duration = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    if duration > _MAX_SECONDS:
        raise ValueError("must be at most 8760h")
    return duration


def parse_path(value: object, info: ValidationInfo) -> Path:
    """Return a path relative to the config file's directory; raise ValueError if invalid."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be the path of a file")
    directory = (info.context or {}).get("directory", Path())
    return Path(directory, value)


def parse_address(value: object) -> tuple[str, int]:
    """Return host and port of `ADDRESS:PORT`; raise ValueError if invalid."""
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or _PORT.fullmatch(port) is None or int(port) > 65535:  # noqa: PLR2004 - a port
        raise ValueError("must be ADDRESS:PORT, such as 0.0.0.0:8443 or [::]:8443")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_server(value: object) -> tuple[str, int]:
    """Return host and port of `https://HOST[:PORT]`; raise ValueError if invalid."""
    url = urlsplit(value) if isinstance(value, str) else None
    if (
        url is None
        or (url.scheme, url.query, url.fragment, url.username) != ("https", "", "", None)
        or not url.hostname
        or url.path not in ("", "/")
    ):
        raise ValueError(f"must be https://HOST[:PORT]{_quoted_unless_secret(value)}")
    url.hostname.encode("idna")  # raises for a name that no resolver can look up
    return url.hostname, url.port or _HTTPS_PORT


def _quoted_unless_secret(value: object) -> str:
    """Return the value for an error message, or nothing if it may contain a secret."""
    return "" if re.search("[@?#]", str(value)) else f", not {value}"


def format_duration(seconds: float) -> str:
    """Return a duration as written in a config file."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0 and (milliseconds or unit == "s"):
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def text_schema(pattern: str) -> WithJsonSchema:
    """Return the JSON Schema of a value that is text in the file and another type in Python."""
    return WithJsonSchema({"type": "string", "pattern": pattern})


DURATION_PATTERN = r"^(?=.)([0-9]+h)?([0-9]+m(?!s))?([0-9]+(\.[0-9]+)?s)?([0-9]+ms)?$"
TIMEOUT_PATTERN = DURATION_PATTERN.replace("(?=.)", "(?=.*[1-9])")
ADDRESS_PATTERN = r"^.+:[0-9]{1,5}$"

Duration = Annotated[float, BeforeValidator(_parse_duration), text_schema(DURATION_PATTERN)]
Timeout = Annotated[
    float, BeforeValidator(_parse_duration), Field(gt=0), text_schema(TIMEOUT_PATTERN)
]
PATH_SCHEMA = text_schema(r"^[^\u0000]+$")

FilePath = Annotated[Path, BeforeValidator(parse_path), PATH_SCHEMA]
Address = Annotated[tuple[str, int], BeforeValidator(parse_address), text_schema(ADDRESS_PATTERN)]
Server = Annotated[
    tuple[str, int], BeforeValidator(parse_server), text_schema(r"^https://[^@?#/]+/?$")
]
