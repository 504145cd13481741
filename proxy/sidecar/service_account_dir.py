"""What an application finds in the shared directory: the files of an in-cluster client.

A client in a pod looks for a token, a CA and a namespace in one directory. The CA is ours, and the
token stays what it is: a link to where the kubelet renews it.
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
    """Which files to write, and where."""

    ca_files: tuple[Path, ...] = ()
    directory: Path | None = None
    """Is made to look like the volume of a service account."""
    namespace: str | None = None
    token_link: Path | None = None
    """Where the token is in the application's own container."""

    def write(self, ca_pem: bytes) -> None:
        """Write everything; the CA comes last, so that whoever waits for it finds all."""
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


NOTHING = ServiceAccountDir()


def _replace(file: Path, content: bytes) -> None:
    """Put a file in place whole: an application may read it at any moment, as any user."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_bytes(content)
    draft.chmod(_READABLE_BY_ALL)
    draft.replace(file)


def _link(link: Path, target: Path) -> None:
    draft = link.with_name(f".{link.name}.new")
    draft.unlink(missing_ok=True)
    # Not looked at: the path means something in the application's container, not in ours.
    draft.symlink_to(target)
    draft.replace(link)
