"""The config file watcher: new contents are applied as a whole, or not at all.

Every check opens the file by its path. A symbolic link may therefore be switched to a new file, as
the kubelet does with a mounted ConfigMap.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.settings.loader import RestartRequired, changed_paths, parse_settings, read_text
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.process import ConfigMetrics

log = logging.getLogger(__name__)

# Another process may be writing the file. A partial file may be valid, but is not the intended one.
SETTLING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """One state of the config file."""

    settings: Settings
    digest: str
    """The SHA-256 of the file, as `sha256sum` prints it."""
    watched: str
    """Equal as long as no watched file has changed."""


def load_config(file: Path) -> LoadedConfig:
    """Read and validate a config file; raise ConfigError. Blocks on file I/O."""
    text = read_text(file)
    settings = parse_settings(text, file=file)
    digest = _digest(text.encode())
    return LoadedConfig(settings, digest, _watched(digest, settings.audit.policy_file))


@dataclass(frozen=True, slots=True)
class ReloadRequest:
    """Settings to apply."""

    settings: Settings
    discard_decisions: bool
    """Whether no cached decision is kept."""


class ConfigWatcher:
    """Checks the file periodically, and at once when `trigger` is called."""

    def __init__(
        self,
        file: Path,
        active: LoadedConfig,
        apply: Callable[[ReloadRequest], Awaitable[None]],
        *,
        counter: ConfigMetrics,
        now: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """Watch `file`; the `active` settings were applied already.

        `apply` applies new settings. If it raises OperatorError, it has changed nothing.
        """
        self._file = file
        self._apply = apply
        self._counter = counter
        self._now = now
        # A trigger during a reload causes another one: the file may have changed after it was read.
        self._loop = RefreshLoop(
            partial(self.check, is_triggered=False),
            delay=self._delay,
            tasks=tasks,
            when_triggered=partial(self.check, is_triggered=True),
        )
        self._logged_problems: list[str] = []
        self._set_active(active)

    def trigger(self) -> None:
        """Reload everything, changed or not, and discard cached decisions."""
        self._loop.trigger()

    async def run(self) -> None:
        """Check the file until cancelled."""
        await self._loop.run()

    async def check(self, *, is_triggered: bool) -> None:
        """Apply the file if it has changed (or `is_triggered` forces it) and is valid."""
        try:
            if not is_triggered and not await self._has_stable_change():
                return
            config = await asyncio.to_thread(load_config, self._file)
            changes = changed_paths(self._active.settings, config.settings)
            await self._apply(ReloadRequest(config.settings, discard_decisions=is_triggered))
        except OperatorError as error:
            self._reject(error, is_triggered=is_triggered)
            return
        self._logged_problems = []
        self._set_active(config)
        self._counter.config_applied()
        log.info("config reloaded", extra=fields(hash=config.digest, changed=changes))

    async def _has_stable_change(self) -> bool:
        """Return whether the file has changed, after waiting until it stops changing."""
        policy = self._active.settings.audit.policy_file
        seen = await asyncio.to_thread(_read_watched, self._file, policy)
        if seen == self._active.watched:
            self._logged_problems = []
            return False
        while True:
            await asyncio.sleep(SETTLING_SECONDS)
            again = await asyncio.to_thread(_read_watched, self._file, policy)
            if again == seen:
                return True
            seen = again

    def _set_active(self, config: LoadedConfig) -> None:
        self._active = config
        self._counter.set_active_config(config.digest, self._now())

    def _reject(self, error: OperatorError, *, is_triggered: bool) -> None:
        is_restart = isinstance(error, RestartRequired)
        self._counter.config_rejected("restart" if is_restart else "refused")
        problems = error.lines
        if is_triggered or problems != self._logged_problems:  # log once, not at every check
            message = "config reload requires restart" if is_restart else "config not reloaded"
            in_force = self._active.digest
            log.error(message, extra=fields(problems=problems, hash_in_force=in_force))
        self._logged_problems = problems

    def _delay(self) -> Delay:
        return Delay(self._active.settings.config_refresh_seconds or None)


def _read_watched(file: Path, policy: Path | None) -> str:
    return _watched(_digest(read_text(file).encode()), policy)


def _watched(digest: str, policy: Path | None) -> str:
    try:
        content = policy.read_bytes() if policy is not None else b""
    except OSError:
        content = b"missing"  # reported when the policy is loaded
    return f"{digest} {policy} {_digest(content)}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
