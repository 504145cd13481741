"""The config file, read whole: every problem is reported together, with its path."""

import copy
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from proxy.core.errors import OperatorError
from proxy.settings.model import Settings
from proxy.settings.types import StrictModel

_Model = TypeVar("_Model", bound=StrictModel)

# Keys of release 0.1.0 that have a new name. An old key is an error that names the new one.
RENAMED_KEYS = {
    "admin.limits.headTimeout": "admin.limits.readHeaderTimeout",
    "admin.metricsNeedToken": "admin.metricsRequireAuthorization",
    "audit.bodyBytes": "audit.maxBodyBytes",
    "impersonation.legacyCache": "impersonation.legacyTTL",
    "impersonation.modeMemory": "impersonation.modeCache",
    "serving.connectionAge": "serving.maxConnectionAge",
    "serving.limits.headTimeout": "serving.limits.readHeaderTimeout",
    "serving.limits.unreadHeadBytes": "serving.limits.unauthenticatedBytes",
}


class ConfigError(OperatorError):
    """The configuration cannot be used; `problems` has one line for each reason."""

    def __init__(self, file: Path, problems: list[str], rest: StrictModel | None = None) -> None:
        """`rest` is what would be in force without the values that are wrong, if anything would."""
        super().__init__(f"{file}: " + "; ".join(problems))
        self.file = file
        self.problems = problems
        self.rest = rest

    @property
    def lines(self) -> list[str]:
        """Each problem with the file's name before it."""
        return [f"{self.file}: {problem}" for problem in self.problems]


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key written twice is a mistake, not a last word."""


def _mapping_without_duplicates(
    loader: _StrictLoader, node: yaml.MappingNode
) -> dict[Hashable, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                None, None, "found a key that is not a name", key_node.start_mark
            )
        if key_node.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"found the key {key_node.value!r} twice", key_node.start_mark
            )
        seen.add(key_node.value)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates
)


def load_settings(file: Path) -> Settings:
    """Read and check a config file; relative paths in it are relative to the file.

    Whatever is wrong, ConfigError tells all of it.
    """
    return check_document(Settings, read_document(file), file=file)


def parse_settings(text: str, *, file: Path) -> Settings:
    """Check the text of a config file; `file` is named in problems."""
    return check_document(Settings, _parse(text, file), file=file)


def read_document(file: Path) -> dict[str, object]:
    """Read a file that is one mapping in YAML."""
    return _parse(read_text(file), file)


def read_text(file: Path) -> str:
    """Read a file of settings, byte for byte."""
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(file, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(file, ["is not UTF-8 text"]) from error


def check_document(model: type[_Model], document: dict[str, object], *, file: Path) -> _Model:
    """Check a mapping against a model, and tell every problem together."""
    context = {"directory": file.parent}
    try:
        return model.model_validate(document, context=context)
    except ValidationError as error:
        found, rest = error.errors(), None
        try:
            rest = model.model_validate(_without(document, found), context=context)
        except ValidationError as more:
            found += _contradictions(found, more.errors())
        raise ConfigError(file, [_problem(detail) for detail in found], rest) from error


def _contradictions(found: list[ErrorDetails], more: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the contradictions that were not looked for, because a value beside them is wrong.

    `more` was found without the wrong values. What names a wrong value is left out: what that one
    should have been decides it.
    """
    known = {(detail["loc"], detail["msg"]) for detail in found}
    wrong = {str(part) for detail in found for part in detail["loc"][-1:]}
    return [
        detail
        for detail in more
        if detail["type"] == "value_error"
        and (detail["loc"], detail["msg"]) not in known
        and wrong.isdisjoint(re.findall(r"\w+", detail["msg"]))
    ]


def _without(document: dict[str, object], found: list[ErrorDetails]) -> dict[str, object]:
    """Return a copy without the values that are wrong."""
    rest = copy.deepcopy(document)
    for detail in found:
        section: object = rest
        for part in detail["loc"][:-1]:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict) and detail["loc"]:
            section.pop(detail["loc"][-1], None)
    return rest


def _parse(text: str, file: Path) -> dict[str, object]:
    try:
        document = yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader, only stricter
    except yaml.YAMLError as error:
        raise ConfigError(file, [f"is not YAML: {_one_line(error)}"]) from error
    if not isinstance(document, dict):
        raise ConfigError(file, ["is not a mapping of settings"])
    return document


def _one_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())


def _problem(detail: ErrorDetails) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    message = detail["msg"].removeprefix("Value error, ")
    match detail["type"]:
        case "extra_forbidden":
            renamed = RENAMED_KEYS.get(path)
            message = f"was renamed: use {renamed}" if renamed else "unknown key"
        case "missing":
            message = "is required"
        case _:
            pass  # pydantic's own words, or those of our validators
    return f"{path}: {message}" if path else message


# Whatever is in none of these is believed to need a restart: a setting that somebody adds and
# forgets here is told to operators, not silently left as it was.
_CHANGES_WHILE_RUNNING = (
    "configRefresh",
    "serving",
    "authentication",
    "upstream",
    "impersonation",
    "audit",
    "admin",
    "log",
    "tracing",
)
# Sockets: whoever connects was told this address, and a successor on the new one is a new process.
_NEEDS_RESTART = ("serving.address", "admin.address")
# So is a port that begins or ceases to speak TLS: whoever asks was told which.
_MAY_NOT_COME_OR_GO = ("admin.certificateFile", "admin.keyFile")


class RestartRequired(OperatorError):
    """These settings were changed, and only a new process can use them."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("; ".join(paths))
        self.paths = paths

    @property
    def lines(self) -> list[str]:
        """Each setting, in the words of other problems of a config file."""
        return [f"{path}: was changed, which needs a restart" for path in self.paths]


def check_reloadable(running: Settings, wanted: Settings) -> None:
    """Raise RestartRequired with every change that cannot be made while we run."""
    before, after = _values(running), _values(wanted)
    paths = [
        path
        for path in changed_paths(running, wanted)
        if _needs_restart(path)
        or (path in _MAY_NOT_COME_OR_GO and None in (before[path], after[path]))
    ]
    if paths:
        raise RestartRequired(paths)


def changed_paths(old: Settings, new: Settings) -> list[str]:
    """Return the path of every setting that differs, in the file's own words and order."""
    before, after = dict(_values(old)), dict(_values(new))
    return [path for path in after | before if before.get(path) != after.get(path)]


def _needs_restart(path: str) -> bool:
    return _is_in(path, _NEEDS_RESTART) or not _is_in(path, _CHANGES_WHILE_RUNNING)


def _is_in(path: str, sections: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in sections)


def _values(model: StrictModel, prefix: str = "") -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        path, value = f"{prefix}{field.alias}", getattr(model, name)
        values |= _values(value, f"{path}.") if isinstance(value, StrictModel) else {path: value}
    return values
