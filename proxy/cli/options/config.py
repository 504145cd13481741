"""The few things that a command line or the environment says, and the config file does not."""

import argparse
import os
from pathlib import Path

from proxy.core.errors import OperatorError
from proxy.settings.types import parse_address, parse_server


def listen_address(text: str) -> tuple[str, int]:
    """Return the two halves of ADDRESS:PORT."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def server_address(text: str) -> tuple[str, int]:
    """Return host and port of https://HOST[:PORT]."""
    try:
        return parse_server(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def server_url(text: str) -> str:
    """Return a URL as it is, if it is https://HOST[:PORT]."""
    server_address(text)
    return text.rstrip("/")


CONFIG_VARIABLE = "UNDERSTUDY_CONFIG"
LOG_LEVEL_VARIABLE = "UNDERSTUDY_LOG_LEVEL"
LOG_LEVELS = ("debug", "info", "warning", "error")


class EnvironmentVariableError(OperatorError):
    """An environment variable is not what it could be."""


def config_from_environment() -> Path | None:
    """Return the config file that the environment names, if it names one."""
    name = os.environ.get(CONFIG_VARIABLE)
    return Path(name) if name else None


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config, which may be left out if the environment names the file."""
    from_environment = config_from_environment()
    parser.add_argument(
        "--config",
        type=Path,
        default=from_environment,
        required=from_environment is None,
        metavar="FILE",
        help=f"the config file; default: ${CONFIG_VARIABLE}",
    )


def add_log_level_option(parser: argparse.ArgumentParser) -> None:
    """Add --log-level."""
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        help=f"in place of the config file's log.level; default: ${LOG_LEVEL_VARIABLE}",
    )


def log_level(options: argparse.Namespace) -> str | None:
    """Return the level that the command line names, or else the environment; None for neither."""
    level: str | None = options.log_level or os.environ.get(LOG_LEVEL_VARIABLE) or None
    if level is not None and level not in LOG_LEVELS:
        raise EnvironmentVariableError(
            f"${LOG_LEVEL_VARIABLE} must be one of {', '.join(LOG_LEVELS)}"
        )
    return level
