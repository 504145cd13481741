"""Stand-ins for the outside world of `find_binaries`: programs, a `go`, the archive's server."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from proxy.sandbox.programs.cache import KUBERNETES_VERSION, PROGRAMS
from proxy.sandbox.programs.envtest_archive import archive_name

PROGRAM = "#!/bin/sh\necho Kubernetes v1.37.1\n"

# Builds what its `-o` says, and notes each call beside itself; a file `hold` makes it wait.
GO = """#!/bin/sh
here=$(dirname "$0")
[ "$1" = env ] && { echo go1.99; exit; }
echo "CGO_ENABLED=$CGO_ENABLED $* in $(echo *)" >> "$here/calls"
while [ -e "$here/hold" ]; do sleep 0.02; done
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""
BROKEN_GO = """#!/bin/sh
echo 'go: downloading something' >&2
echo 'go: no network' >&2
exit 1
"""


def write_program(path: Path, script: str = PROGRAM) -> Path:
    """Write a shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def write_programs(directory: Path, names: Iterable[str] = PROGRAMS) -> None:
    """Write a stand-in for each program of the control plane."""
    for name in names:
        write_program(directory / name)


@dataclass(slots=True)
class Mirror:
    """A server of envtest archives: what it serves, and what it was asked for."""

    url: str
    contents: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def index(self) -> str:
        """The URL of its index."""
        return f"{self.url}/index.yaml"

    def offer(self, programs: Iterable[str] = PROGRAMS, *, sha512: str | None = None) -> None:
        """Serve an archive of these programs, listed with its checksum or with a given one."""
        archive = _pack(programs)
        name, link = archive_name(), "/archive.tar.gz"
        entry = {
            "hash": sha512 or hashlib.sha512(archive).hexdigest(),
            "selfLink": f"{self.url}{link}",
        }
        index = {"releases": {f"v{KUBERNETES_VERSION}": {name: entry}}}
        self.contents = {link: archive, "/index.yaml": yaml.safe_dump(index).encode()}


@contextmanager
def running_mirror() -> Iterator[Mirror]:
    """Run a server that answers 404 to everything until it is told to offer something."""
    mirror = Mirror("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            mirror.asked.append(self.path)
            content = mirror.contents.get(self.path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        mirror.url = f"http://127.0.0.1:{server.server_port}"
        worker = threading.Thread(target=server.serve_forever, args=(0.02,))
        worker.start()
        try:
            yield mirror
        finally:
            server.shutdown()
            worker.join()


def _pack(programs: Iterable[str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in programs:
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(PROGRAM)
            archive.addfile(member, io.BytesIO(PROGRAM.encode()))
    return packed.getvalue()
