"""Settings from the command line or the environment instead of the config file."""

import argparse
import os
from pathlib import Path

from proxy.core.errors import OperatorError
from proxy.settings.types import parse_address, parse_server


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return host and port of ADDRESS:PORT."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_server_address(text: str) -> tuple[str, int]:
    """Return host and port of https://HOST[:PORT]."""
    try:
        return parse_server(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_server_url(text: str) -> str:
    """Return a URL of the form https://HOST[:PORT], without a trailing slash."""
    parse_server_address(text)
    return text.rstrip("/")


CONFIG_VARIABLE = "UNDERSTUDY_CONFIG"
LOG_LEVEL_VARIABLE = "UNDERSTUDY_LOG_LEVEL"
LOG_LEVELS = ("debug", "info", "warning", "error")


class EnvironmentVariableError(OperatorError):
    """An environment variable has an invalid value."""


def config_from_environment() -> Path | None:
    """Return the config file named by the environment, if any."""
    name = os.environ.get(CONFIG_VARIABLE)
    return Path(name) if name else None


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config, which is optional if the environment names the file."""
    from_environment = config_from_environment()
    parser.add_argument(
        "--config",
        type=Path,
        default=from_environment,
        required=from_environment is None,
        metavar="FILE",
        help=f"config file; default: ${CONFIG_VARIABLE}",
    )


def add_log_level_option(parser: argparse.ArgumentParser) -> None:
    """Add --log-level."""
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        help=f"overrides log.level of the config file; default: ${LOG_LEVEL_VARIABLE}",
    )


def log_level(options: argparse.Namespace) -> str | None:
    """Return the log level of the command line or the environment; None if neither sets it."""
    level: str | None = options.log_level or os.environ.get(LOG_LEVEL_VARIABLE) or None
    if level is not None and level not in LOG_LEVELS:
        raise EnvironmentVariableError(
            f"${LOG_LEVEL_VARIABLE} must be one of {', '.join(LOG_LEVELS)}"
        )
    return level
