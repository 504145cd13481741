"""Health endpoints in the format of kube-apiserver: `ok`, or which check failed and why.

`/livez` reports whether the process should be restarted. It never depends on the API server: an
outage there must not restart every proxy. `/readyz` reports whether clients should be sent here.

The text equals kube-apiserver's, with two differences. A failure is a 503, because it may be
temporary. The reason is included, because all reasons are constant texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from proxy.core.gocompat.quote import go_quote

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One named check; `error` returns what is wrong, or None."""

    name: str
    error: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)
"""Always passes: the response itself proves that the process answers."""


class EventLoopHeartbeat:
    """The event loop's heartbeat: periodic maintenance beats, and a health check observes it."""

    def __init__(self, clock: Callable[[], float], *, silence_seconds: float) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._last = clock()

    def beat(self) -> None:
        """Record a beat."""
        self._last = self._clock()

    def health_error(self) -> str | None:
        """Return an error if the last beat is too long ago."""
        silent = self._clock() - self._last
        return f"no heartbeat for {silent:.0f}s" if silent > self._silence_seconds else None


class HealthHandler:
    """Serves one health endpoint, and each of its checks on a subpath."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self._name = name
        self.checks = checks

    @property
    def results(self) -> Iterator[tuple[str, str | None]]:
        """Yield the name and the current error of each check."""
        return ((check.name, check.error()) for check in self.checks)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Respond `ok`; list every check if one fails or with `?verbose`."""
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
        """Respond with the result of one check; None if there is none of this name."""
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
        headers=_HEADERS,
    )
