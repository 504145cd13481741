"""Run `understudy` as in a pod whose root file system is read-only.

python -m tests.support.in_pod DIRECTORY serve --config=...

The directory holds the service account's files, which in a pod are at a path that the client
library knows by heart.
"""

import errno
import os
import sys

from kubernetes_asyncio.config import incluster_config

from proxy.cli.main import main

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_DENIED = {"os.mkdir", "os.rename", "os.remove", "os.symlink", "os.link", "os.truncate"}


def refuse_to_write(event: str, arguments: tuple[object, ...]) -> None:
    """Be the read-only file system, for whatever Python opens by a name."""
    if event == "open":
        path, _, flags = arguments
        is_named = isinstance(path, str | bytes) and path not in ("/dev/null", b"/dev/null")
        if not (is_named and isinstance(flags, int) and flags & _WRITING):
            return
    elif event not in _DENIED:
        return
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), arguments[0])


if __name__ == "__main__":
    directory, *words = sys.argv[1:]
    incluster_config.SERVICE_TOKEN_FILENAME = f"{directory}/token"
    incluster_config.SERVICE_CERT_FILENAME = f"{directory}/ca.crt"
    sys.addaudithook(refuse_to_write)
    sys.exit(main(words))
