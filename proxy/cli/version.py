"""`understudy version`."""

import argparse
import json
import platform
import ssl
from importlib.metadata import version

from proxy.cli.registry import CommandRegistry

# Its decisions are compared with, case by case, by `make parity`.
_DECIDES_AS = "kube-apiserver 1.37"
_EPILOG = """\
examples:
  understudy version
  understudy version --output json

exit codes: 0 printed, 2 wrong options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "version",
        help="print the version",
        description="Print the version; as JSON with what it runs on, for a report of a fault.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    own = version("kube-understudy")
    if options.output == "text":
        print(f"understudy {own}")
        return 0
    facts = {
        "version": own,
        "decidesAs": _DECIDES_AS,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "platform": platform.platform(),
    }
    print(json.dumps(facts, indent=2))
    return 0
