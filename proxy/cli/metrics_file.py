"""A page of metrics as a file, for the textfile collector of Prometheus' node exporter."""

import os
import stat
import tempfile
from pathlib import Path

from proxy.core.errors import SetupError

# The collector is another user, and nothing in it is secret. Our umask has no say.
_MODE = 0o644


class MetricsFileError(SetupError):
    """The metrics cannot be written."""


def write_metrics(path: Path, page: bytes) -> None:
    """Put a page in the place of the one before; whoever reads finds a whole one, old or new."""
    try:
        # A device, or a link to one, would be replaced and not written to.
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise MetricsFileError(f"cannot write {path}: not a regular file")
        _replace(path, page)
    except OSError as error:
        raise MetricsFileError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, page: bytes) -> None:
    # Beside it, for only there is a rename atomic. The name does not end as the collector's files
    # do, so that an unfinished one is never read, and nobody can foresee it.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
            os.fchmod(file.fileno(), _MODE)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
