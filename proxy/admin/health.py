"""Health as Kubernetes asks for it: `ok`, or which check failed and why.

`/livez` asks whether we should be restarted and so never looks upstream: an API server that is
down must not take every proxy with it. `/readyz` asks whether clients should be sent here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

_NOT_GUESSED = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One named question; the answer is what is wrong, or None when nothing is."""

    name: str
    fault: Callable[[], str | None]


class Heartbeat:
    """The event loop's: whoever keeps house in it beats, and a check listens."""

    def __init__(self, clock: Callable[[], float], *, silence_seconds: float) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._last = clock()

    def beat(self) -> None:
        """Be alive now."""
        self._last = self._clock()

    def fault(self) -> str | None:
        """Return what is wrong when no beat was heard for too long."""
        silent = self._clock() - self._last
        return f"no heartbeat for {silent:.0f}s" if silent > self._silence_seconds else None


class HealthPage:
    """Answers one path from its checks."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self._name = name
        self._checks = checks

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Say `ok`; list every check when one fails, or when `?verbose` asks for it."""
        faults = [(check.name, check.fault()) for check in self._checks]
        is_healthy = all(fault is None for _, fault in faults)
        lines = [
            f"[+]{name} ok" if fault is None else f"[-]{name} failed: {fault}"
            for name, fault in faults
        ]
        lines.append(f"{self._name} check {'passed' if is_healthy else 'failed'}")
        listed = "\n".join([*lines, ""])
        return web.Response(
            text="ok" if is_healthy and "verbose" not in request.query else listed,
            status=HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE,
            headers=_NOT_GUESSED,
        )
