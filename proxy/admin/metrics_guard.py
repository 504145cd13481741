"""Who may see the metrics: the API server says whose a token is, and what its owner may.

As on other components of a cluster, that is the verb get on the path /metrics. Nothing is
remembered: a scrape is rare, and a right that is withdrawn is gone with the next one. What a flood
of bad tokens costs the API server is bounded by address and in total. The longest line of a head
is 8 KB, so no token is longer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from proxy.core.access_check import AccessCheck
from proxy.core.errors import Refusal, ReviewRefused, TooManyRequests, Unauthorized
from proxy.core.evaluation import Answer
from proxy.core.forbidden import forbidden_message
from proxy.core.identity import Identity
from proxy.fairness.origin import origin_of
from proxy.fairness.rationing import Ration, Rationing

_REVIEW_SECONDS = 5.0
_AT_A_TIME = 8
_BEARER = "bearer"
# Tokens of one address that do not open the page. Prometheus asks a few times a minute.
_FAILURES = Ration(per_second=5.0, burst=50.0)
_TOO_MANY = "too many requests"


TokenReviewer = Callable[[str], Awaitable[Identity | None]]
"""Returns the token's owner, or None for a definite no; Refusal for anything else."""

AccessReviewer = Callable[[AccessCheck], Awaitable[Answer]]
"""Returns what somebody may do; Refusal when there is no answer."""


class MetricsGuard:
    """Lets those in whom the API server knows and allows."""

    def __init__(
        self, tokens: TokenReviewer, access: AccessReviewer, *, clock: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._access = access
        self._under_way = 0
        self._rationing = Rationing(_FAILURES, clock, refusal=_TOO_MANY)

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return why the request is not answered; None when it is."""
        token = _bearer_token(request)
        if token is None:
            return _refused(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if self._under_way >= _AT_A_TIME:
            # Whoever asks is a stranger still: a flood of them must not become one of reviews.
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
        self._under_way += 1
        try:
            return await self._judge_rationed(token, request)
        except (TooManyRequests, Unauthorized, ReviewRefused) as refusal:
            # The API server answers: what it does not accept is about this scraper alone.
            return _refused(HTTPStatus(refusal.code), refusal.message)
        except (Refusal, TimeoutError):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "the API server does not answer")
        finally:
            self._under_way -= 1

    async def _judge_rationed(self, token: str, request: web.BaseRequest) -> web.Response | None:
        origin = origin_of(request.remote or "")
        self._rationing.spend(origin)
        async with asyncio.timeout(_REVIEW_SECONDS):
            refusal = await self._judge(token, request.path)
        if refusal is None:
            self._rationing.give_back(origin)
        return refusal

    async def _judge(self, token: str, path: str) -> web.Response | None:
        owner = await self._tokens(token)
        if owner is None:
            raise Unauthorized
        check = AccessCheck(owner, "get", is_resource=False, path=path)
        answer = await self._access(check)
        if answer.allowed:
            return None
        return _refused(HTTPStatus.FORBIDDEN, forbidden_message(check, ""))


def _bearer_token(request: web.BaseRequest) -> str | None:
    """Return the one token that was shown; None for none, or for more than one."""
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    token = token.strip()
    return token if scheme.lower() == _BEARER and token.isascii() and token else None


def _refused(status: HTTPStatus, text: str) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = "1"
    return web.Response(status=status, text=f"{text}\n", headers=headers)
