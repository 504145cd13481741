"""`understudy check-config`: validate a config file and report every problem."""

import argparse
import json
from pathlib import Path

from proxy.cli.options.config import config_from_environment
from proxy.cli.registry import CommandRegistry
from proxy.runtime.config_file_checks import find_file_problems
from proxy.settings.loader import ConfigError, check_reloadable, load_settings
from proxy.settings.model import Settings, config_schema

_DESCRIPTION = """\
Validate a config file and report every problem, each with its path: unknown keys, wrong types,
contradictions, and files (certificates, keys, CAs, kubeconfigs, the audit policy) that are missing
or invalid. No file is changed, no server is contacted, and no credential plugin is run.
"""
_EPILOG = """\
examples:
  understudy check-config /etc/understudy/config.yaml
  understudy check-config --no-files config.yaml          without the files it names, as in CI
  understudy check-config --running old.yaml new.yaml     check whether a reload is possible
  understudy check-config --schema > config.schema.json   for editors and other tools

exit codes: 0 valid, 1 problems (one line each on standard error), 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "check-config",
        help="validate a config file, or print its JSON Schema",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config",
        type=Path,
        nargs="?",
        default=config_from_environment(),
        metavar="FILE",
        help="config file; default: $UNDERSTUDY_CONFIG",
    )
    parser.add_argument(
        "--no-files", action="store_true", help="do not check the files that it names"
    )
    parser.add_argument(
        "--running",
        type=Path,
        metavar="FILE",
        help="config file of a running proxy; also report changes that need a restart",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON Schema of config files",
    )
    parser.set_defaults(run=run, fail=parser.error)


def run(options: argparse.Namespace) -> int:
    """Validate the file; problems are raised, and reported by the caller."""
    if options.schema:
        print(json.dumps(config_schema(), indent=2))
        return 0
    file = options.config
    if file is None:
        options.fail("FILE, $UNDERSTUDY_CONFIG or --schema is required")
    settings = _load(file, checks_files=not options.no_files)
    if options.running is not None:
        check_reloadable(load_settings(options.running), settings)
    print(f"{file}: no problem found")
    return 0


def _load(file: Path, *, checks_files: bool) -> Settings:
    """Return the settings of a valid file; raise ConfigError with every problem.

    Problems of values and of files are reported together.
    """
    try:
        settings = load_settings(file)
    except ConfigError as error:
        if checks_files and isinstance(error.valid_settings, Settings):
            raise ConfigError(
                file, error.problems + find_file_problems(error.valid_settings)
            ) from error
        raise
    if checks_files and (problems := find_file_problems(settings)):
        raise ConfigError(file, problems)
    return settings
