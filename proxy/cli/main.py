"""The `understudy` command: arguments in, exit code out. A user error is one line, no traceback."""

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from proxy.core.errors import OperatorError

_EXIT_FAILURE = 1
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130
# The usage text names kubectl if the command runs as its plugin.
_PLUGIN_PROGRAM, _PLUGIN_USAGE = "kubectl-understudy", "kubectl understudy"
_EXIT_BROKEN_PIPE = 141

_DESCRIPTION = """\
An impersonating reverse proxy in front of kube-apiserver: constrained impersonation (KEP-5284) for
any cluster. Clients use it like the API server. Impersonation is granted by the cluster's own RBAC.
"""
_EPILOG = """\
to try it                 understudy dev
to install it             understudy certificate --service understudy | kubectl apply -f -
                          understudy check-config /etc/understudy/config.yaml
                          understudy serve --config /etc/understudy/config.yaml
to use it                 understudy kubeconfig --server https://PROXY:8443 --ca ca.crt \\
                            --from-context prod --as alice --output k.yaml
more help                 understudy COMMAND --help

environment:
  UNDERSTUDY_CONFIG       config file of `serve` and `check-config`
  UNDERSTUDY_LOG_LEVEL    log level of `serve`; overrides log.level of the config file

exit codes: 0 success, 1 error (one line per reason on standard error), 2 invalid options,
130 interrupted, 141 output pipe closed; some commands have more, see their --help
"""

# Each command is a module of this package. Only the requested one is imported, so that a proxy in
# production never loads the sandbox.
_ALIASES = {"sidecar": "act"}
# Commands that accept a kubectl command line after two dashes.
_WITH_COMMAND_LINE = frozenset({"explain"})
_COMMANDS = {
    "serve": "run the proxy",
    "act": "run a sidecar that impersonates one user",
    "certificate": "print a serving certificate and its CA as manifests",
    "kubeconfig": "write a kubeconfig whose server is the proxy",
    "dev": "run a local control plane with the proxy, with a guided tour",
    "check-config": "validate a config file, or print its JSON Schema",
    "explain": "explain why a request is allowed or denied, and what to grant",
    "can-i": "check whether a user may impersonate another user for an action",
    "report": "report impersonation found in audit logs, and what to grant",
    "audit": "join the audit logs of proxy and cluster",
    "grant": "compile an intent to RBAC",
    "grants": "list the grants in a cluster",
    "revoke": "delete grants from a cluster",
    "lint": "find mistakes in RBAC for impersonation",
    "who-can": "list the subjects that may impersonate a user for an action",
    "completion": "print the completion script for a shell",
    "version": "print the version",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parse(given)
    try:
        code: int = options.run(options)
    except OperatorError as error:
        for line in error.lines:
            print(f"understudy: {line}", file=sys.stderr)
        return _EXIT_FAILURE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise  # not a file named by the user: a bug, or a system failure
        print(f"understudy: {error.filename}: {error.strerror}", file=sys.stderr)
        return _EXIT_FAILURE
    return code


def run() -> None:
    """Run as the `understudy` command."""
    sys.exit(main())


def parser_for(given: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for a command line; only the command named there is fully defined."""
    return _parsers(given)[0]


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line and a hint, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(_EXIT_USAGE, f"understudy: {message}\nSee '{self.prog} --help'.\n")


def _normalized(given: Sequence[str]) -> list[str]:
    """Return the arguments with the common spellings of help and version replaced."""
    if not given:
        return ["--help"]
    if given[0] in {"--version", "-v"}:
        return ["version", *given[1:]]
    if given[0] == "help":
        return [*given[1:2], "--help"]
    return list(given)


def _check_command(parser: argparse.ArgumentParser, name: str | None) -> None:
    """Exit with a suggestion if there is no such command."""
    known = [*_COMMANDS, *_ALIASES]
    if name is None or name in known:
        return
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    parser.error(f"there is no command {name!r}{hint}")


def _parse(given: Sequence[str]) -> argparse.Namespace:
    command_line: list[str] | None = None
    words = _normalized(given)
    if "--" in words and _command_in(words) in _WITH_COMMAND_LINE:
        position = words.index("--")
        words, command_line = words[:position], words[position + 1 :]
    parser, named = _parsers(words)
    _check_command(parser, _command_in(words))
    options, unknown = parser.parse_known_args(words)
    if command_line is not None:
        options.kubectl = command_line
    if unknown:
        # The hint names the command, not the overview.
        named.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _command_in(given: Sequence[str]) -> str | None:
    return next((word for word in given if not word.startswith("-")), None)


def _parsers(given: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser for a command line, and the parser of the command named there."""
    parser = CommandParser(
        prog=_PLUGIN_USAGE if Path(sys.argv[0]).name == _PLUGIN_PROGRAM else "understudy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    chosen = _command_in(given)
    command = _ALIASES.get(chosen, chosen) if chosen is not None else None
    for name, summary in _COMMANDS.items():
        if name == command:
            module = import_module(f"proxy.cli.{name.replace('-', '_')}")
            module.register(commands)
        else:
            commands.add_parser(name, help=summary)
    named = commands.choices.get(chosen, parser) if chosen is not None else parser
    return parser, named
