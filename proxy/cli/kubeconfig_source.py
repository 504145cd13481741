"""Lookup of a context in the user's kubeconfigs, by the rules of kubectl."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from proxy.core.errors import OperatorError

_CLUSTER_PATHS = ("certificate-authority",)
_USER_PATHS = ("client-certificate", "client-key", "tokenFile")


class KubeconfigSourceError(OperatorError):
    """The context cannot be found, or its file cannot be read."""


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """The parts of a context; paths in it are absolute."""

    cluster: dict[str, Any]
    user: dict[str, Any]
    namespace: str | None


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: Mapping[str, Any]

    def named(self, section: str, name: str) -> Mapping[str, Any] | None:
        """Return the entry with this name, without its wrapper."""
        entries = self.content.get(section) or []
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get(section[:-1]) or {}
                return found if isinstance(found, dict) else {}
        return None


def find_context(name: str, file: Path | None) -> KubeconfigContext:
    """Return the named context, or the current one for ''; KubeconfigSourceError if missing."""
    files = list(_files(file))
    name = name or _current(files)
    context, _ = _entry(files, "contexts", name)
    cluster_name, user_name = context.get("cluster"), context.get("user")
    if not isinstance(cluster_name, str) or not isinstance(user_name, str):
        raise KubeconfigSourceError(f"the context {name} does not name both a cluster and a user")
    cluster, cluster_file = _entry(files, "clusters", cluster_name)
    user, user_file = _entry(files, "users", user_name)
    namespace = context.get("namespace")
    return KubeconfigContext(
        _absolute(cluster, _CLUSTER_PATHS, cluster_file),
        _with_absolute_command(_absolute(user, _USER_PATHS, user_file), user_file),
        namespace if isinstance(namespace, str) else None,
    )


def _files(file: Path | None) -> Iterator[_File]:
    """Yield all kubeconfigs, in order of precedence."""
    if file is not None:
        yield _File(file.absolute(), _read(file))
        return
    listed = os.environ.get("KUBECONFIG")
    default = str(Path.home() / ".kube" / "config")
    for path in map(Path, filter(None, (listed or default).split(os.pathsep))):
        if path.exists():
            yield _File(path.absolute(), _read(path))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise KubeconfigSourceError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigSourceError(f"{path} is not YAML") from error
    if not isinstance(content, dict):
        raise KubeconfigSourceError(f"{path} is not a kubeconfig")
    return content


def _current(files: list[_File]) -> str:
    for file in files:
        current = file.content.get("current-context")
        if current and isinstance(current, str):
            return current
    raise KubeconfigSourceError(_no_context(files))


def _no_context(files: list[_File]) -> str:
    if files:
        return "no kubeconfig has a current context: use --context"
    return "there is no kubeconfig: use --kubeconfig, or set KUBECONFIG"


def _entry(files: list[_File], section: str, name: str) -> tuple[Mapping[str, Any], Path]:
    """Return the entry from the first file that contains it, and that file."""
    for file in files:
        found = file.named(section, name)
        if found is not None:
            return found, file.path
    places = ", ".join(str(file.path) for file in files) or "no kubeconfig"
    raise KubeconfigSourceError(f"{section[:-1]} {name} is not in {places}")


def _absolute(entry: Mapping[str, Any], keys: tuple[str, ...], file: Path) -> dict[str, Any]:
    """Return an entry with absolute paths, so that it is valid in another file."""
    return {
        key: str(file.parent / value) if key in keys and isinstance(value, str) and value else value
        for key, value in entry.items()
    }


def _with_absolute_command(user: dict[str, Any], file: Path) -> dict[str, Any]:
    plugin = user.get("exec")
    command = plugin.get("command") if isinstance(plugin, dict) else None
    # A bare name is searched on the PATH; any other command is relative to its kubeconfig.
    if not isinstance(plugin, dict) or not isinstance(command, str) or os.sep not in command:
        return user
    return user | {"exec": plugin | {"command": str(file.parent / command)}}
