"""The environment of the data-plane rows: certificates, tokens, and the upstream.

with running_stage() as stage:
    stage.upstream_url, stage.client_token, stage.counts()
"""

import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.generator import Generators
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import BearerToken, CertificateAuthority, write_secret
from proxy.sandbox.processes import LOOPBACK, ChildProcess, start_child
from proxy.sandbox.programs.go_program import go_program

CALLER = "bob"
WANTED = "alice"
# The user of a proxy that presents its own credential without impersonation.
OWN_NAME = "system:serviceaccount:understudy:understudy"
_SOURCE = Path(__file__).with_name("go")
# A service account's token is about a kilobyte.
_TOKEN_BYTES = 768
_START_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Counts:
    """The requests that the upstream has received so far, by user name."""

    requests_as: dict[str, int]
    token_reviews: int
    access_reviews: int


def _new_token() -> BearerToken:
    return BearerToken(secrets.token_urlsafe(_TOKEN_BYTES))


@dataclass(frozen=True, slots=True)
class Stage:
    """The environment of one run, in its own directory."""

    directory: Path
    program: Path
    servers: CertificateAuthority = field(default_factory=lambda: CertificateAuthority("servers"))
    client_token: BearerToken = field(default_factory=_new_token)
    own_token: BearerToken = field(default_factory=_new_token)
    generators: Generators = field(default_factory=Generators)
    """Load generators that stay connected between turns."""

    @property
    def authority_file(self) -> Path:
        """Return the CA file of all servers."""
        return self.directory / "authority.crt"

    @property
    def client_token_file(self) -> Path:
        """Return the file of the token that clients present to each contestant."""
        return self.directory / "client-token"

    @property
    def own_token_file(self) -> Path:
        """Return the file of the token that each contestant presents to the upstream."""
        return self.directory / "own-token"

    @property
    def upstream_url(self) -> str:
        """Return the URL of the upstream."""
        return f"https://{self.address_of('upstream')}"

    def address_of(self, name: str) -> str:
        """Return the address of a component that was started under this name."""
        return f"{LOOPBACK}:{self._port_file(name).read_text()}"

    def _port_file(self, name: str) -> Path:
        return self.directory / f"{name}.port"

    def issue_serving(self, name: str) -> tuple[Path, Path]:
        """Write a serving certificate and its key, and return both paths."""
        return self.servers.issue_server(LOOPBACK).write(self.directory, name)

    def start_part(self, part: str, name: str, *options: str) -> ChildProcess:
        """Start a server of the Go program; its port is in `NAME.port` when this returns."""
        certificate, key = self.issue_serving(name)
        port_file = self._port_file(name)
        port_file.unlink(missing_ok=True)
        process = start_child(
            [
                self.program,
                part,
                f"--certificate={certificate}",
                f"--key={key}",
                f"--port-file={port_file}",
                f"--caller={CALLER}",
                *options,
            ],
            log_file=self.directory / f"{name}.log",
        )
        _wait_for(port_file, process)
        return process

    def counts(self) -> Counts:
        """Return the upstream's request counts."""
        client = ApiClient(self.upstream_url, ca_pem=self.servers.certificate_pem)
        counts = json.loads(client.request("GET", "/counts").body)
        return Counts(counts["requestsAs"], counts["tokenReviews"], counts["accessReviews"])


def bench_program() -> Path:
    """Return the Go program, built if necessary; OSError, SubprocessError."""
    return go_program("bench", _SOURCE)


@contextmanager
def running_stage() -> Iterator[Stage]:
    """Build the Go program if necessary, start the upstream, and clean up on exit."""
    program = bench_program()
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as directory:
        stage = Stage(Path(directory), program)
        stage.authority_file.write_bytes(stage.servers.certificate_pem)
        write_secret(stage.client_token_file, stage.client_token.value.encode())
        write_secret(stage.own_token_file, stage.own_token.value.encode())
        upstream = stage.start_part(
            "upstream",
            "upstream",
            f"--own-token-file={stage.own_token_file}",
            f"--client-token-file={stage.client_token_file}",
        )
        try:
            yield stage
        finally:
            stage.generators.close()
            upstream.stop()


def _wait_for(port_file: Path, process: ChildProcess) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not port_file.exists():
        process.ensure_running()
        if time.monotonic() > deadline:
            raise SandboxError(f"{process.program.name} does not listen, see {process.log_file}")
        time.sleep(_POLL_SECONDS)
