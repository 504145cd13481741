"""The directory that the sidecar shares with the application: files of an in-cluster client.

An in-cluster client reads a token, a CA and a namespace from one directory. The CA is the
sidecar's. The token is a symbolic link to the file that the kubelet renews.
"""

from dataclasses import dataclass
from pathlib import Path

from proxy.core.errors import OperatorError

CA_FILE, NAMESPACE_FILE, TOKEN_FILE = "ca.crt", "namespace", "token"
_READABLE_BY_ALL = 0o644


class ServiceAccountDirError(OperatorError):
    """A file for the application cannot be written."""


@dataclass(frozen=True, slots=True)
class ServiceAccountDir:
    """Files to write for the application, and their location."""

    ca_files: tuple[Path, ...] = ()
    directory: Path | None = None
    """Directory that is laid out like a service account volume."""
    namespace: str | None = None
    token_link: Path | None = None
    """Path of the token in the application's own container."""

    def write(self, ca_pem: bytes) -> None:
        """Write all files; the CA is written last, so that its presence means all are complete."""
        directory = self.directory
        files = list(self.ca_files)
        try:
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
                files.append(directory / CA_FILE)
                if self.namespace is not None:
                    _replace(directory / NAMESPACE_FILE, self.namespace.encode())
                if self.token_link is not None:
                    _link(directory / TOKEN_FILE, self.token_link)
            for file in files:
                _replace(file, ca_pem)
        except OSError as error:
            raise ServiceAccountDirError(
                f"cannot write {error.filename}: {error.strerror}"
            ) from error


NO_FILES = ServiceAccountDir()


def _replace(file: Path, content: bytes) -> None:
    """Replace a file atomically: an application may read it at any time, as any user."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_bytes(content)
    temporary.chmod(_READABLE_BY_ALL)
    temporary.replace(file)


def _link(link: Path, target: Path) -> None:
    temporary = link.with_name(f".{link.name}.new")
    temporary.unlink(missing_ok=True)
    # The target is not checked: the path exists in the application's container only.
    temporary.symlink_to(target)
    temporary.replace(link)
