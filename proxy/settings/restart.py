"""Which changes of the config file cannot be made while we run."""

from collections.abc import Mapping
from typing import Any

from proxy.core.errors import SetupError
from proxy.settings.model import Settings
from proxy.settings.strict import StrictModel

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


class RestartNeeded(SetupError):
    """These settings were changed, and only a new process can use them."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("; ".join(paths))
        self.paths = paths

    @property
    def lines(self) -> list[str]:
        """Each setting, in the words of other problems of a config file."""
        return [f"{path}: was changed, which needs a restart" for path in self.paths]


def check_needs_no_restart(running: Settings, wanted: Settings) -> None:
    """Raise RestartNeeded with every change that cannot be made while we run."""
    before, after = _values(running), _values(wanted)
    paths = [
        path
        for path in changed_paths(running, wanted)
        if _needs_restart(path)
        or (path in _MAY_NOT_COME_OR_GO and None in (before[path], after[path]))
    ]
    if paths:
        raise RestartNeeded(paths)


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
