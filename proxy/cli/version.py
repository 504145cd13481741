"""`understudy version`."""

import argparse
from importlib.metadata import version

from proxy.cli.registry import Commands


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    print(f"understudy {version('kube-understudy')}")
    return 0
