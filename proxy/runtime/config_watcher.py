"""The config file, followed while we run: new contents are used whole, or not at all.

It is read by its path at every look, so that a symbolic link may be turned to a new file, as the
kubelet does with a mounted ConfigMap.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import OperatorError
from proxy.settings.loader import RestartRequired, changed_paths, parse_settings, read_text
from proxy.settings.model import Settings
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Somebody may be writing the file: half of it may be good settings, too, just not the wanted ones.
SETTLING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """One state of the config file."""

    settings: Settings
    digest: str
    """The SHA-256 of the file, as `sha256sum` tells it."""
    watched: str
    """Equal as long as nothing that is looked at has changed."""


def load_config(file: Path) -> LoadedConfig:
    """Read and check a config file, or ConfigError. Blocks on files."""
    text = read_text(file)
    settings = parse_settings(text, file=file)
    digest = _digest(text.encode())
    return LoadedConfig(settings, digest, _watched(digest, settings.audit.policy_file))


class ConfigCounter(Protocol):
    """Learns what is in force, and what became of new contents."""

    def config_is(self, digest: str, at: float) -> None:
        """Tell which file is in force, and since when in seconds since 1970."""
        ...

    def config_used(self) -> None:
        """Count contents that were used."""
        ...

    def config_rejected(self, outcome: str) -> None:
        """Count contents that were not used; `outcome` is refused or restart."""
        ...


class ReloadCallback(Protocol):
    """Whoever is to use new settings."""

    def __call__(self, settings: Settings, *, forgets: bool) -> Awaitable[None]:
        """Use them; OperatorError if they cannot be used, and nothing was changed."""
        ...


class ConfigWatcher:
    """Looks at the file from time to time, and at once when it is told to."""

    def __init__(
        self,
        file: Path,
        active: LoadedConfig,
        apply: ReloadCallback,
        *,
        counter: ConfigCounter,
        now: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """`apply` was given the `active` settings already."""
        self._file = file
        self._apply = apply
        self._counter = counter
        self._now = now
        self._tasks = tasks
        self._is_told = asyncio.Event()
        self._complained: list[str] = []
        self._take(active)

    def trigger(self) -> None:
        """Read everything again, changed or not, and forget what was decided before."""
        self._is_told.set()

    async def run(self) -> None:
        """Look again and again."""
        while True:
            is_told = await self._wait()
            self._is_told.clear()
            # A task of its own, so that not even a bug in one look ends the looking.
            await asyncio.wait([self._tasks.start(self.check(is_told=is_told))])

    async def check(self, *, is_told: bool) -> None:
        """Use what the file says now, if it is new (or we are told to) and all good."""
        try:
            if not is_told and not await self._has_settled_news():
                return
            config = await asyncio.to_thread(load_config, self._file)
            changes = changed_paths(self._active.settings, config.settings)
            await self._apply(config.settings, forgets=is_told)
        except OperatorError as error:
            self._refuse(error, is_told=is_told)
            return
        self._complained = []
        self._take(config)
        self._counter.config_used()
        log.info("config reloaded", extra=fields(hash=config.digest, changed=changes))

    async def _has_settled_news(self) -> bool:
        """Tell whether there is something new that nobody is writing any more."""
        policy = self._active.settings.audit.policy_file
        seen = await asyncio.to_thread(_look_at, self._file, policy)
        if seen == self._active.watched:
            self._complained = []
            return False
        while True:
            await asyncio.sleep(SETTLING_SECONDS)
            again = await asyncio.to_thread(_look_at, self._file, policy)
            if again == seen:
                return True
            seen = again

    def _take(self, config: LoadedConfig) -> None:
        self._active = config
        self._counter.config_is(config.digest, self._now())

    def _refuse(self, error: OperatorError, *, is_told: bool) -> None:
        is_restart = isinstance(error, RestartRequired)
        self._counter.config_rejected("restart" if is_restart else "refused")
        problems = error.lines
        if is_told or problems != self._complained:  # once, not at every look
            message = "config needs a restart" if is_restart else "config not reloaded"
            in_force = self._active.digest
            log.error(message, extra=fields(problems=problems, hash_in_force=in_force))
        self._complained = problems

    async def _wait(self) -> bool:
        """Wait for the next time to look; tell whether somebody told us to."""
        seconds = self._active.settings.config_refresh_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds or None):
                await self._is_told.wait()
        return self._is_told.is_set()


def _look_at(file: Path, policy: Path | None) -> str:
    return _watched(_digest(read_text(file).encode()), policy)


def _watched(digest: str, policy: Path | None) -> str:
    try:
        content = policy.read_bytes() if policy is not None else b""
    except OSError:
        content = b"missing"  # which is told when the policy is loaded
    return f"{digest} {policy} {_digest(content)}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
