"""The command line: arguments in, exit code out. A user's mistake is one line, not a traceback."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from proxy.core.errors import OperatorError

_EXIT_FAILURE = 1
_EXIT_INTERRUPTED = 130
# Whoever calls us by kubectl is told so in our usage.
_PLUGIN_FILE, _PLUGIN = "kubectl-understudy", "kubectl understudy"
_EXIT_BROKEN_PIPE = 141

_DESCRIPTION = """\
An impersonating reverse proxy before kube-apiserver: constrained impersonation (KEP-5284) for any
cluster. Clients talk to it as they would to the API server; who may act as whom is granted by the
cluster's own RBAC.
"""
_EPILOG = """\
to see what it does       understudy dev
to install it             understudy certificate --service understudy | kubectl apply -f -
                          understudy check-config /etc/understudy/config.yaml
                          understudy serve --config /etc/understudy/config.yaml
to use it                 understudy kubeconfig --server https://PROXY:8443 --ca ca.crt \\
                            --from-context prod --as alice --output k.yaml
to be told more           understudy COMMAND --help

environment:
  UNDERSTUDY_CONFIG       the config file, for `serve` and `check-config`
  UNDERSTUDY_LOG_LEVEL    in place of the config file's log.level, for `serve`

exit codes: 0 done, 1 cannot (each reason is a line on standard error), 2 wrong options,
130 interrupted, 141 nobody reads the output; some commands have more, see their --help
"""

# Each is a module of this package. Only the one that is asked for is imported, so that a proxy in
# production never loads the sandbox.
_ALIASES = {"sidecar": "act"}
_COMMANDS = {
    "serve": "run the proxy",
    "act": "run an unprivileged hop beside an application, which acts as one identity",
    "certificate": "print a serving certificate and its CA as manifests",
    "kubeconfig": "write a kubeconfig that goes through the proxy",
    "dev": "run a real control plane and the proxy on this machine, with a guided tour",
    "check-config": "check a config file, or print its JSON Schema",
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
    options = _parsed(given)
    try:
        code: int = options.run(options)
    except OperatorError as error:
        for line in error.lines:
            print(f"understudy: {line}", file=sys.stderr)
        return _EXIT_FAILURE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise  # no file that somebody named: a bug of ours, or of the machine
        print(f"understudy: {error.filename}: {error.strerror}", file=sys.stderr)
        return _EXIT_FAILURE
    return code


def run() -> None:
    """Be the `understudy` command."""
    sys.exit(main())


def parser_for(given: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for a command line; only the command that is named there is complete."""
    return _parsers(given)[0]


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    parser, named = _parsers(given)
    options, unknown = parser.parse_known_args(given)
    if unknown:
        # Told with the usage of the command that does not know them, not with the overview.
        named.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _parsers(given: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser for a command line, and that of the command that is named there."""
    parser = argparse.ArgumentParser(
        prog=_PLUGIN if Path(sys.argv[0]).name == _PLUGIN_FILE else "understudy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    chosen = next((word for word in given if not word.startswith("-")), None)
    command = _ALIASES.get(chosen, chosen) if chosen is not None else None
    for name, summary in _COMMANDS.items():
        if name == command:
            module = import_module(f"proxy.cli.{name.replace('-', '_')}")
            module.register(commands)
        else:
            commands.add_parser(name, help=summary)
    named = commands.choices.get(chosen, parser) if chosen is not None else parser
    return parser, named
