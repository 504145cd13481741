"""The command line: arguments in, exit code out. A user's mistake is one line, not a traceback."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from proxy.core.errors import SetupError

_EXIT_FAILURE = 1
_EXIT_INTERRUPTED = 130
# Whoever calls us by kubectl is told so in our usage.
_PLUGIN_FILE, _PLUGIN = "kubectl-understudy", "kubectl understudy"

# Each is a module of this package. Only the one that is asked for is imported, so that a proxy in
# production never loads the sandbox.
_COMMANDS = {
    "serve": "run the proxy",
    "act": "run an unprivileged hop beside an application, which acts as one identity",
    "certificate": "print a serving certificate and its CA as manifests",
    "kubeconfig": "write a kubeconfig that goes through the proxy",
    "dev": "run a real control plane and the proxy on this machine, with a guided tour",
    "check-config": "check a config file",
    "explain": "tell why a request is allowed or denied, and what to grant",
    "can-i": "ask whether somebody may act as somebody else, for an action",
    "report": "tell from audit logs who impersonates whom, and what to grant",
    "audit": "read audit logs: join ours and the cluster's",
    "grant": "compile an intent (who may act as whom, for what) to RBAC",
    "lint": "find mistakes in RBAC for impersonation",
    "who-can": "tell who may act as somebody, for an action",
    "completion": "print a shell's completion script",
    "version": "print the version",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser_for(given).parse_args(given)
    try:
        code: int = options.run(options)
    except SetupError as error:
        for line in error.lines:
            print(f"understudy: {line}", file=sys.stderr)
        return _EXIT_FAILURE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return code


def run() -> None:
    """Be the `understudy` command."""
    sys.exit(main())


def parser_for(given: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for a command line; only the command that is named there is complete."""
    parser = argparse.ArgumentParser(
        prog=_PLUGIN if Path(sys.argv[0]).name == _PLUGIN_FILE else "understudy",
        description="An impersonating reverse proxy before kube-apiserver: constrained "
        "impersonation (KEP-5284) for any cluster.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen = next((word for word in given if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        if name == chosen:
            module = import_module(f"proxy.cli.{name.replace('-', '_')}")
            module.register(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser
