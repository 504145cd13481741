"""`understudy serve`: run the proxy until a signal stops it."""

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from proxy.cli.options.config import add_config_option, add_log_level_option, log_level
from proxy.cli.registry import CommandRegistry
from proxy.concurrency.task_set import TaskSet
from proxy.runtime.config_file_checks import find_file_problems
from proxy.runtime.config_watcher import ConfigWatcher, LoadedConfig, ReloadRequest, load_config
from proxy.runtime.proxy import run_proxy
from proxy.settings.loader import ConfigError
from proxy.settings.model import Settings
from proxy.telemetry.logs import configure_logs, fields
from proxy.telemetry.metrics.process import ConfigMetrics
from proxy.telemetry.uncaught import install_uncaught_handlers

log = logging.getLogger(__name__)

_DESCRIPTION = """\
Run the proxy in the foreground. All settings are in the config file, which is reloaded when it
changes. New contents apply from the next request on. If any part is invalid, nothing changes.
"""
_EPILOG = """\
signals:
  SIGHUP            reload the config file, and discard all cached decisions
  SIGTERM, SIGINT   drain: report not ready, finish in-flight requests, then exit; a second signal
                    exits at once

examples:
  understudy serve --config /etc/understudy/config.yaml
  UNDERSTUDY_CONFIG=config.yaml understudy serve --log-level debug

exit codes: 0 stopped by a signal, 1 error (reasons on standard error), 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the proxy",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_option(parser)
    add_log_level_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    file, level = options.config, log_level(options)
    config = load_config(file)
    if problems := find_file_problems(config.settings):
        raise ConfigError(file, problems)
    _configure_logs(config.settings, level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        install_uncaught_handlers(runner.get_loop())
        runner.run(_serve(file, config, level))
    return 0


def _configure_logs(settings: Settings, level: str | None) -> None:
    configure_logs(
        style=settings.log.format,
        level=level or settings.log.level,
        repeats_per_minute=settings.log.repeats_per_minute,
    )


async def _serve(file: Path, config: LoadedConfig, level: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    tasks = TaskSet(lambda error: log.error("config watch failed", exc_info=error))
    _on_stop_signals(loop, stop.set)
    async with run_proxy(config.settings) as proxy:
        log.info("config loaded", extra=fields(file=str(file), hash=config.digest))

        async def apply(request: ReloadRequest) -> None:
            await proxy.reload(request.settings, discard_decisions=request.discard_decisions)
            _configure_logs(request.settings, level)

        counter = ConfigMetrics(proxy.registry)
        watcher = ConfigWatcher(file, config, apply, counter=counter, now=_now, tasks=tasks)
        loop.add_signal_handler(signal.SIGHUP, watcher.trigger)
        tasks.start_background(watcher.run())
        await stop.wait()
        _on_stop_signals(loop, proxy.skip_grace_period)
        # No reload during shutdown: it would rebuild what is being stopped.
        await tasks.stop()
        await proxy.drain.run()


def _on_stop_signals(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, callback)


def _now() -> float:
    return datetime.now(UTC).timestamp()
