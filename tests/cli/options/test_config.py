"""The few things that the command line and the environment say; the line comes first."""

import argparse
import logging
from pathlib import Path

import pytest

from proxy.cli import serve
from proxy.cli.options.config import add_config_option, add_log_level_option, log_level
from tests.settings.test_loader import parse
from tests.support.restored_logging import restored_logging


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_config_option(parser)
    add_log_level_option(parser)
    return parser.parse_args(arguments)


def test_the_environment_speaks_where_the_command_line_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", "from-environment.yaml")
    monkeypatch.setenv("UNDERSTUDY_LOG_LEVEL", "warning")

    silent, told = options(), options("--config", "told.yaml", "--log-level", "debug")

    assert (silent.config, log_level(silent)) == (Path("from-environment.yaml"), "warning")
    assert (told.config, log_level(told)) == (Path("told.yaml"), "debug")


def test_without_either_the_file_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG_LEVEL", "")

    assert log_level(options("--config", "a")) is None
    with restored_logging():
        levels = []
        for override in (None, "error"):
            serve._configure_logs(parse("log: {level: debug}\n"), override)
            levels.append(logging.getLogger().level)
    assert levels == [logging.DEBUG, logging.ERROR]
