"""Loading of the config file: all problems are reported at once, each with its path."""

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
    """The configuration is invalid; `problems` has one line per reason."""

    def __init__(self, file: Path, problems: list[str], rest: StrictModel | None = None) -> None:
        """`rest` holds the settings without the invalid values, if these are valid."""
        super().__init__(f"{file}: " + "; ".join(problems))
        self.file = file
        self.problems = problems
        self.valid_settings = rest

    @property
    def lines(self) -> list[str]:
        """Return each problem, prefixed with the file name."""
        return [f"{self.file}: {problem}" for problem in self.problems]


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, object]:
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


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def load_settings(file: Path) -> Settings:
    """Load and validate a config file; raise ConfigError with every problem.

    Relative paths in the file are relative to its directory.
    """
    return check_document(Settings, read_document(file), file=file)


def parse_settings(text: str, *, file: Path) -> Settings:
    """Validate the text of a config file; problems name `file`."""
    return check_document(Settings, _parse(text, file), file=file)


def read_document(file: Path) -> dict[str, object]:
    """Read a YAML file that contains one mapping."""
    return _parse(read_text(file), file)


def read_text(file: Path) -> str:
    """Read a settings file as UTF-8, without newline translation."""
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(file, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(file, ["is not UTF-8 text"]) from error


def check_document(model: type[_Model], document: dict[str, object], *, file: Path) -> _Model:
    """Validate a mapping against a model; raise ConfigError with every problem."""
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
    """Return the contradictions that were not checked because a related value is invalid.

    `more` lists the problems found without the invalid values. A contradiction that names an
    invalid value is left out: it depends on the value that replaces it.
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
    """Return a copy of the document without the invalid values."""
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
            pass  # the message of pydantic or of a validator
    return f"{path}: {message}" if path else message


# Any setting outside these sections is assumed to need a restart. A new setting that is missing
# here is therefore reported to the operator, not silently ignored.
_RELOADABLE = (
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
# Sockets: clients are configured with this address, and listening on another takes a new process.
_NEEDS_RESTART = ("serving.address", "admin.address")
# Switching a port to or from TLS also needs a restart: its clients are configured for one of them.
_MUST_STAY_SET_OR_UNSET = ("admin.certificateFile", "admin.keyFile")


class RestartRequired(OperatorError):
    """Settings changed that only a new process can apply."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("; ".join(paths))
        self.paths = paths

    @property
    def lines(self) -> list[str]:
        """Return one line per setting, in the format of other config file problems."""
        return [f"{path}: was changed, which needs a restart" for path in self.paths]


def check_reloadable(running: Settings, wanted: Settings) -> None:
    """Raise RestartRequired with every change that a running proxy cannot apply."""
    before, after = _values(running), _values(wanted)
    paths = [
        path
        for path in changed_paths(running, wanted)
        if _needs_restart(path)
        or (path in _MUST_STAY_SET_OR_UNSET and None in (before[path], after[path]))
    ]
    if paths:
        raise RestartRequired(paths)


def changed_paths(old: Settings, new: Settings) -> list[str]:
    """Return the path of every setting that differs, spelled and ordered as in the file."""
    before, after = dict(_values(old)), dict(_values(new))
    return [path for path in after | before if before.get(path) != after.get(path)]


def _needs_restart(path: str) -> bool:
    return _is_in(path, _NEEDS_RESTART) or not _is_in(path, _RELOADABLE)


def _is_in(path: str, sections: tuple[str, ...]) -> bool:
    return any(path == section or path.startswith(f"{section}.") for section in sections)


def _values(model: StrictModel, prefix: str = "") -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        path, value = f"{prefix}{field.alias}", getattr(model, name)
        values |= _values(value, f"{path}.") if isinstance(value, StrictModel) else {path: value}
    return values
