"""The kinds of requests in the demo: kubectl, plain HTTP, and the WebSocket of a console."""

import http
import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from proxy.sandbox.aggregated.server import CONSOLE_PROTOCOL
from proxy.sandbox.api_client import Manifest, client_context
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.tour.runner import (
    ImpersonationRequest,
    StepOutcome,
    TourServer,
    TourUser,
)
from proxy.sandbox.web_socket import UpgradeRejected, WebSocket

KUBECTL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class KubectlRequest:
    """A kubectl command, with the sender's kubeconfig."""

    program: Path
    arguments: tuple[str, ...]

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        """Return the command line."""
        flags = wanted.flags() if wanted else []
        return [f"$ {shlex.join(['kubectl', *self.arguments, *flags])}"]

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        """Run kubectl: exit code 0 is allowed, `Forbidden` is denied, anything else is an error."""
        kubeconfig = target.kubeconfig_for(sender.credential, name=file_name(sender))
        options = [f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig.with_suffix('.cache')}"]
        flags = wanted.flags() if wanted else []
        try:
            done = subprocess.run(  # noqa: S603 - the sandbox's kubectl with constant arguments
                [self.program, *options, *self.arguments, *flags],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=KUBECTL_SECONDS,
                check=False,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(kubeconfig.parent)},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"kubectl did not complete: {error}") from error
        if done.returncode != 0 and "(Forbidden)" not in done.stderr:
            raise SandboxError(f"kubectl failed: {done.stderr.strip()}")
        return StepOutcome(done.returncode == 0, done.stderr if done.returncode else done.stdout)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A plain HTTP request, with the sender's certificate or token."""

    path: str
    method: str = "GET"
    body: Manifest | None = None

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        """Return the request line and the headers that matter."""
        headers = wanted.headers() if wanted else []
        return [f"{self.method} {self.path}", *(f"{name}: {value}" for name, value in headers)]

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        """Send the request: 2xx is allowed, 403 is denied, anything else is an error."""
        headers = wanted.headers() if wanted else []
        client = target.client(sender.credential)
        try:
            response = client.request(self.method, self.path, headers=headers, body=self.body)
        except (OSError, HTTPException) as error:
            raise SandboxError(
                f"{self.method} {self.path} received no response: {error}"
            ) from error
        return _outcome(response.status, response.body)


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """An upgrade to a WebSocket that must send a greeting and echo a message."""

    path: str

    def lines(self, wanted: ImpersonationRequest | None) -> list[str]:
        """Return the request line and the headers that matter."""
        upgrade = ["Upgrade: websocket", f"Sec-WebSocket-Protocol: {CONSOLE_PROTOCOL}"]
        return [*HttpRequest(self.path).lines(wanted), *upgrade]

    def send(
        self, target: TourServer, sender: TourUser, wanted: ImpersonationRequest | None
    ) -> StepOutcome:
        """Open the console and send a message; return its greeting and its echo."""
        headers = wanted.headers() if wanted else []
        if isinstance(sender.credential, BearerToken):
            headers.append(("Authorization", f"Bearer {sender.credential.value}"))
        context = client_context(target.ca_pem, sender.credential)
        url = f"{target.url}{self.path}"
        try:
            with WebSocket(
                url, context=context, protocol=CONSOLE_PROTOCOL, headers=headers
            ) as console:
                greeting = json.loads(console.receive())
                console.send("uname -a")
                return StepOutcome(
                    allowed=True, text=json.dumps(greeting | {"echo": console.receive()})
                )
        except UpgradeRejected as rejected:
            return _outcome(rejected.status, rejected.body)
        except (OSError, HTTPException) as error:
            raise SandboxError(f"the console {self.path} received no response: {error}") from error


def file_name(user: TourUser) -> str:
    """Return the name of a user's kubeconfig, without its suffix."""
    return user.title.removeprefix("the ").replace(" ", "-")


def _outcome(status: int, body: bytes) -> StepOutcome:
    text = body.decode(errors="replace")
    if status in range(200, 300):
        return StepOutcome(allowed=True, text=text)
    if status == http.HTTPStatus.FORBIDDEN:
        return StepOutcome(allowed=False, text=json.loads(text)["message"])
    raise SandboxError(f"expected 2xx or 403, received {status}: {text.strip()}")
