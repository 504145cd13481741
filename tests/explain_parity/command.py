"""The commands as users run them, without a process of their own for each."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.cli.main import main
from proxy.core.userinfo import UserInfo

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    output: str
    errors: str

    def document(self) -> Document:
        """Return what was printed as JSON."""
        assert self.code in {0, 1}, self.errors
        assert self.output, self.errors
        told: Document = json.loads(self.output)
        return told


def run(*arguments: str) -> Said:
    """Run one command."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
    return Said(code, output.getvalue(), errors.getvalue())


@dataclass(frozen=True, slots=True)
class Desk:
    """Where advice is asked for: a kubeconfig, and the proxy's settings."""

    kubeconfig: Path
    config: Path | None = None

    def options(self) -> list[str]:
        """Return what each command is told of it."""
        options = [f"--kubeconfig={self.kubeconfig}", "-o=json"]
        return options if self.config is None else [*options, f"--config={self.config}"]

    def can_i(
        self, caller: UserInfo, wanted_user: UserInfo | None, method: bytes, target: bytes
    ) -> Said:
        """Ask for one answer."""
        return run("can-i", *request_options(caller, wanted_user, method, target), *self.options())

    def explain(
        self, caller: UserInfo, wanted_user: UserInfo | None, method: bytes, target: bytes
    ) -> Document:
        """Ask for the whole story."""
        options = request_options(caller, wanted_user, method, target)
        return run("explain", "--anyway", *options, *self.options()).document()

    def explain_event(self, file: Path) -> Document:
        """Ask for the story of a recorded request."""
        return run("explain", "--anyway", f"--audit-event={file}", *self.options()).document()


def request_options(
    caller: UserInfo, wanted_user: UserInfo | None, method: bytes, target: bytes
) -> list[str]:
    """Return the options that say a request."""
    options = [f"--user={caller.name}", f"--uid={caller.uid}"]
    options += [f"--group={group}" for group in caller.groups]
    options += [f"--extra={key}={value}" for key, values in caller.extra for value in values]
    if wanted_user is not None:
        options += [f"--as={wanted_user.name}", f"--as-uid={wanted_user.uid}"]
        options += [f"--as-group={group}" for group in wanted_user.groups]
        options += [
            f"--as-user-extra={key}={value}"
            for key, values in wanted_user.extra
            for value in values
        ]
    return [*options, f"--method={method.decode()}", f"--raw={os.fsdecode(target)}"]
