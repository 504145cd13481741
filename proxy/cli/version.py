"""`understudy version`: the version of the installed package."""

import argparse
import json
import platform
import ssl
from importlib.metadata import version

from proxy.cli.registry import CommandRegistry

# The version whose decisions `make parity` compares with, case by case.
_REFERENCE_SERVER = "kube-apiserver 1.37"
_EPILOG = """\
examples:
  understudy version
  understudy version -o json

exit codes: 0 printed, 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "version",
        help="print the version",
        description="Print the version. JSON output adds the platform, for bug reports.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    installed = version("kube-understudy")
    if options.output == "text":
        print(f"understudy {installed}")
        return 0
    facts = {
        "version": installed,
        "decidesAs": _REFERENCE_SERVER,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "platform": platform.platform(),
    }
    print(json.dumps(facts, indent=2))
    return 0
