"""`understudy check-config`: report every problem of a config file, or that there is none."""

import argparse
import json
from pathlib import Path

from proxy.cli.options.config import config_from_environment
from proxy.cli.registry import CommandRegistry
from proxy.runtime.config_file_checks import find_file_problems
from proxy.settings.loader import ConfigError, check_reloadable, load_settings
from proxy.settings.model import Settings, config_schema

_DESCRIPTION = """\
Report every problem of a config file together, each with its path: unknown keys, wrong types,
contradictions, and files (certificates, keys, CAs, kubeconfigs, the audit policy) that are missing
or cannot be used. Nothing is changed, nobody is asked, and no credential plugin is run.
"""
_EPILOG = """\
examples:
  understudy check-config /etc/understudy/config.yaml
  understudy check-config --no-files config.yaml          where those files are not, as in CI
  understudy check-config --running old.yaml new.yaml     would a running proxy take the new one?
  understudy check-config --schema > config.schema.json   for editors and other tools

exit codes: 0 no problem, 1 problems (one a line on standard error), 2 wrong options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "check-config",
        help="check a config file, or print its JSON Schema",
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
        help="the config file; default: $UNDERSTUDY_CONFIG",
    )
    parser.add_argument(
        "--no-files", action="store_true", help="do not look at the files that it names"
    )
    parser.add_argument(
        "--running",
        type=Path,
        metavar="FILE",
        help="the config file of a running proxy: tell also what only a restart could change",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON Schema of config files",
    )
    parser.set_defaults(run=run, fail=parser.error)


def run(options: argparse.Namespace) -> int:
    """Check the file; problems are raised and told by the caller."""
    if options.schema:
        print(json.dumps(config_schema(), indent=2))
        return 0
    file = options.config
    if file is None:
        options.fail("a FILE is needed, or $UNDERSTUDY_CONFIG, or --schema")
    settings = _checked(file, looks_at_files=not options.no_files)
    if options.running is not None:
        check_reloadable(load_settings(options.running), settings)
    print(f"{file}: no problem found")
    return 0


def _checked(file: Path, *, looks_at_files: bool) -> Settings:
    """Return the settings of a good file; the problems of values and of files are told together."""
    try:
        settings = load_settings(file)
    except ConfigError as error:
        if looks_at_files and isinstance(error.rest, Settings):
            raise ConfigError(file, error.problems + find_file_problems(error.rest)) from error
        raise
    if looks_at_files and (problems := find_file_problems(settings)):
        raise ConfigError(file, problems)
    return settings
