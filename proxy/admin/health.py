"""Health as Kubernetes asks for it: `ok`, or which check failed and why.

`/livez` asks whether we should be restarted and so never looks upstream: an API server that is
down must not take every proxy with it. `/readyz` asks whether clients should be sent here. The text
is the API server's own, but for two things: what failed is a 503, which says that it may pass, and
the reason is told, because all of ours are constant texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from proxy.core.gocompat.quote import go_quote

_NOT_GUESSED = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One named question; the answer is what is wrong, or None when nothing is."""

    name: str
    error: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)
"""Whoever reads this has an answer."""


class EventLoopHeartbeat:
    """The event loop's: whoever keeps house in it beats, and a check listens."""

    def __init__(self, clock: Callable[[], float], *, silence_seconds: float) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._last = clock()

    def beat(self) -> None:
        """Be alive now."""
        self._last = self._clock()

    def health_error(self) -> str | None:
        """Return what is wrong when no beat was heard for too long."""
        silent = self._clock() - self._last
        return f"no heartbeat for {silent:.0f}s" if silent > self._silence_seconds else None


class HealthHandler:
    """Answers one path from its checks, and each check on a path of its own."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self._name = name
        self.checks = checks

    @property
    def faults(self) -> Iterator[tuple[str, str | None]]:
        """Yield what each check says now."""
        return ((check.name, check.error()) for check in self.checks)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Say `ok`; list every check when one fails, or when `?verbose` asks for it."""
        excluded = set(request.query.getall("exclude", ()))
        is_healthy, lines = True, []
        for check in self.checks:
            fault = None
            if check.name in excluded:
                excluded.remove(check.name)
                lines.append(f"[+]{check.name} excluded: ok")
            elif (fault := check.error()) is None:
                lines.append(f"[+]{check.name} ok")
            else:
                lines.append(f"[-]{check.name} failed: {fault}")
            is_healthy = is_healthy and fault is None
        if excluded:
            unknown = ",".join(go_quote(name) for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        lines.append(f"{self._name} check {'passed' if is_healthy else 'failed'}")
        listed = "\n".join([*lines, ""])
        return _page(
            "ok" if is_healthy and "verbose" not in request.query else listed,
            is_healthy=is_healthy,
        )

    async def handle_single(self, name: str) -> web.Response | None:
        """Say how one check stands; None when there is none of this name."""
        for check in self.checks:
            if check.name == name:
                fault = check.error()
                text = "ok" if fault is None else f"internal server error: {fault}\n"
                return _page(text, is_healthy=fault is None)
        return None


def _page(text: str, *, is_healthy: bool) -> web.Response:
    return web.Response(
        text=text,
        status=HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE,
        headers=_NOT_GUESSED,
    )
