"""`understudy serve`: run the proxy until it is told to stop."""

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path

import uvloop

from proxy.app import Proxy, running_proxy
from proxy.cli.registry import Commands
from proxy.settings.model import Settings
from proxy.settings.reader import ConfigError, load_settings
from proxy.telemetry.escaped import log_what_escapes
from proxy.telemetry.logs import configure_logs, fields

log = logging.getLogger(__name__)


def register(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the proxy",
        description="Run the proxy in the foreground. SIGHUP reads the config file again, decides "
        "by its impersonation section and uses its certificates from then on; SIGTERM and SIGINT "
        "drain the proxy, then end it, and a second one ends it at once.",
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the config file"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    settings = load_settings(options.config)
    configure_logs(
        style=settings.log.format,
        level=settings.log.level,
        repeats_per_minute=settings.log.repeats_per_minute,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        log_what_escapes(runner.get_loop())
        runner.run(_serve(options.config, settings))
    return 0


async def _serve(config: Path, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    _on_stop_signals(loop, stop.set)
    async with running_proxy(settings) as proxy:
        loop.add_signal_handler(signal.SIGHUP, _reload, config, proxy)
        await stop.wait()
        _on_stop_signals(loop, proxy.hurry)
        await proxy.drain.run()


def _on_stop_signals(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, callback)


def _reload(config: Path, proxy: Proxy) -> None:
    """Take the file's new rules whole, or keep the old ones whole."""
    try:
        settings = load_settings(config)
    except ConfigError as error:
        log.error("config not reloaded", extra=fields(problems=error.problems))  # noqa: TRY400 - the problems say it all
        return
    proxy.reload(settings)
