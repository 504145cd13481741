"""The few things that a command line or the environment says, and the config file does not."""

import argparse
import os
from pathlib import Path

from proxy.core.errors import SetupError

CONFIG_VARIABLE = "UNDERSTUDY_CONFIG"
LOG_LEVEL_VARIABLE = "UNDERSTUDY_LOG_LEVEL"
LOG_LEVELS = ("debug", "info", "warning", "error")


class OptionError(SetupError):
    """Something is missing, or an environment variable is not what it could be."""


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the config file; default: ${CONFIG_VARIABLE}",
    )


def add_log_level_option(parser: argparse.ArgumentParser) -> None:
    """Add --log-level."""
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        help=f"in place of log.level of the config file; default: ${LOG_LEVEL_VARIABLE}",
    )


def config_file(options: argparse.Namespace) -> Path:
    """Return the file that the command line names, or else the environment."""
    named: Path | None = options.config
    if named is not None:
        return named
    if not os.environ.get(CONFIG_VARIABLE):
        raise OptionError(f"no config file: name it by --config or by ${CONFIG_VARIABLE}")
    return Path(os.environ[CONFIG_VARIABLE])


def log_level(options: argparse.Namespace) -> str | None:
    """Return the level that the command line names, or else the environment; None for neither."""
    level: str | None = options.log_level or os.environ.get(LOG_LEVEL_VARIABLE) or None
    if level is not None and level not in LOG_LEVELS:
        raise OptionError(f"${LOG_LEVEL_VARIABLE} must be one of {', '.join(LOG_LEVELS)}")
    return level
