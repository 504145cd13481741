"""`understudy check-config`: report every problem of a config file, or that there is none."""

import argparse
from pathlib import Path

from proxy.cli.registry import Commands
from proxy.settings.audit_policy import load_audit_policy
from proxy.settings.reader import load_settings


def register(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "check-config",
        help="check a config file",
        description="Report every problem of a config file together, each with its path; "
        "of its audit policy, too.",
    )
    parser.add_argument("config", type=Path, metavar="FILE", help="the config file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read the file; problems are raised and told by the caller."""
    settings = load_settings(options.config)
    policy = settings.audit.policy_file
    if policy is not None and policy.exists():
        # Elsewhere the file may be where it is not here, like those of certificates.
        load_audit_policy(policy)
    print(f"{options.config}: no problem found")
    return 0
