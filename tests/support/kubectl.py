"""Running kubectl as a person would: one program, one kubeconfig, one way to stream."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.old_kubectl import old_kubectl


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A kubectl with its kubeconfig; `websockets=False` makes a new one stream over SPDY."""

    program: Path
    kubeconfig: Path
    websockets: bool = True

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command line; the cache stays beside the kubeconfig, not in $HOME."""
        cache = self.kubeconfig.with_suffix(".cache")
        options = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}"]
        return [str(self.program), *options, *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment, with the way to stream said explicitly."""
        switch = "true" if self.websockets else "false"
        return os.environ | {
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": switch,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": switch,
        }

    def run(
        self, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to the end, whatever the exit code."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            input=stdin,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator["RunningKubectl"]:
        """Start in the background, input held open, output piped; killed on leaving."""
        with subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                assert process.stdout is not None
                yield RunningKubectl(process, process.stdout)
            finally:
                process.kill()


STREAMING_CLIENTS = ("1.37 by WebSocket", "1.37 by SPDY", "1.20")
"""The kubectls every streaming check is made with."""


def streaming_kubectl(client: str, program: Path, kubeconfig: Path) -> Kubectl:
    """Return one of STREAMING_CLIENTS; `program` is the new kubectl, the old one is fetched."""
    if client == "1.20":
        return Kubectl(old_kubectl(), kubeconfig, websockets=False)  # it knows nothing else
    return Kubectl(program, kubeconfig, websockets=client == "1.37 by WebSocket")


@dataclass(frozen=True, slots=True)
class RunningKubectl:
    """A kubectl in the background. Reading waits; the test's own timeout bounds it."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def line(self) -> str:
        """Return the next line of output without its end; fail if the output has ended."""
        line = self.output.readline()
        assert line, f"kubectl ended with {self.process.wait()}"
        return line.decode().rstrip("\n")
