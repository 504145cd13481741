"""Go's own HTTP server behind the proxy, which tells how it has read each request.

    with running_go_server(certificates, tmp_path) as server:
        server.address              # speaks TLS, grants every review
        server.requests()           # every other request so far, in the order of their heads

Its source is in `go_server/`.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.sandbox.processes import ChildProcess, start_child
from tests.support.build_once import built_by_go
from tests.support.certificates import Certificates
from tests.support.scripted_api_server import OWN_NAME
from tests.support.streaming import wait_until

SOURCE = Path(__file__).with_name("go_server")


@dataclass(frozen=True, slots=True)
class BodyRead:
    """A body as Go has read it."""

    size: int
    digest: str
    trailers: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class RequestRead:
    """A request as Go has read it; `body` is None while it still comes."""

    method: str
    target: bytes
    url: str
    protocol: str
    host: str
    headers: dict[str, list[bytes]]
    content_length: int
    transfer_encoding: list[str]
    body: BodyRead | None

    def value(self, name: str) -> str:
        """Return the one value of a header; "" when there is none, or more than one."""
        values = self.headers.get(name, [])
        return values[0].decode() if len(values) == 1 else ""


@dataclass(frozen=True, slots=True)
class GoServer:
    """A running server."""

    address: tuple[str, int]
    _records: Path

    def requests(self) -> list[RequestRead]:
        """Return every request so far but the reviews."""
        heads: dict[int, dict[str, Any]] = {}
        bodies: dict[int, BodyRead] = {}
        for line in self._records.read_bytes().splitlines():
            event = json.loads(line)
            if "ended" in event:
                bodies[event["ended"]] = BodyRead(
                    event["bytes"], event["sha256"], event["trailers"], event["isComplete"]
                )
            else:
                heads[event["number"]] = event
        return [_request(head, bodies.get(number)) for number, head in heads.items()]


def _request(head: dict[str, Any], body: BodyRead | None) -> RequestRead:
    return RequestRead(
        method=head["method"],
        target=base64.b64decode(head["requestURI"]),
        url=head["url"],
        protocol=head["protocol"],
        host=head["host"],
        headers={
            name: [base64.b64decode(value) for value in values]
            for name, values in head["headers"].items()
        },
        content_length=head["contentLength"],
        transfer_encoding=head["transferEncoding"] or [],
        body=body,
    )


@contextmanager
def running_go_server(certificates: Certificates, directory: Path) -> Iterator[GoServer]:
    """Start the server, built on first use; skip or fail the test if Go cannot."""
    program = go_server_program()
    files = directory / "go-server"
    files.mkdir()
    certificate, key = certificates.write_server_files(files)
    process = start_child(
        [
            program,
            f"--certificate={certificate}",
            f"--key={key}",
            f"--records={files / 'records'}",
            f"--port-file={files / 'port'}",
            f"--own-name={OWN_NAME}",
        ],
        log_file=files / "go-server.log",
    )
    try:
        port = _announced_port(process, files / "port")
        yield GoServer(("127.0.0.1", port), files / "records")
    finally:
        process.stop()


def go_server_program() -> Path:
    """Return the program, built once for its sources; skip or fail the test if Go cannot."""
    return built_by_go("go-server", SOURCE)


def _announced_port(process: ChildProcess, port_file: Path) -> int:
    def is_announced() -> bool:
        process.ensure_running()
        return port_file.exists()

    wait_until(is_announced, "the Go server does not listen")
    return int(port_file.read_text())
