"""Does the API server answer us? Asked all the time: readiness must not wait for a request.

The question is the canary's. An answer means that the API server can be reached, accepts the
reviewer's credential, and reviews access. One failure says little; one success says everything.

This is the only probe of the API server's reviews. The breaker follows it, too, and can have it
asked out of turn; the least time between two probes holds nevertheless.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.telemetry.logs import fields
from proxy.upstream.identity.whoami import CALL_ERRORS, call

log = logging.getLogger(__name__)

USER_PREFIX = "understudy-canary-"
_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED = "the API server allows a made-up user a made-up verb: its denials mean nothing"


class CanaryCounter(Protocol):
    """Learns the answer."""

    def canary_completed(self, *, allowed: bool) -> None:
        """Tell whether what nobody may do is allowed."""
        ...


class AuthorizerCanary:
    """Asks, and remembers the last answer; no answer changes nothing, but the first must come."""

    def __init__(self, client: ApiClient, counter: CanaryCounter) -> None:
        self._client = client
        self._counter = counter
        self._fault: str | None = "not asked yet"
        self._is_answered = True

    def health_error(self) -> str | None:
        """Tell what is wrong with the API server's answers, for who asks whether we are ready."""
        return self._fault

    async def probe(self) -> bool:
        """Ask once, about somebody who was never asked about before: no cache can answer.

        Tells whether there was an answer.
        """
        try:
            review = await call(self._client, "POST", _PATH, _review())
            allowed = review["status"]["allowed"]
        except (ApiException, *CALL_ERRORS) as error:
            status = error.status if isinstance(error, ApiException) else None
            if self._is_answered:  # once, not at every question of an outage
                log.warning(
                    "authorizer canary not answered",
                    extra=fields(error=type(error).__name__, status=status),
                )
            self._is_answered = False
            if self._fault is not None and self._fault != _ALLOWED:
                self._fault = f"access reviews are not answered (status {status})"
            return False
        self._is_answered = True
        # Whatever is not a plain no is not one.
        is_denied = allowed is False
        self._counter.canary_completed(allowed=not is_denied)
        if not is_denied and self._fault != _ALLOWED:
            log.error("authorizer canary was allowed", extra=fields(reason=_ALLOWED))
        self._fault = None if is_denied else _ALLOWED
        return True


def _review() -> dict[str, object]:
    nonce = secrets.token_hex(8)
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"{USER_PREFIX}{nonce}",
            "resourceAttributes": {
                "verb": "impersonate-on:understudy-canary:get",
                "version": "v1",
                "resource": "pods",
                "namespace": "default",
                "name": f"canary-{nonce}",
            },
        },
    }


_EVERY_SECONDS = 2.0
_UNSETTLED_SECONDS = 0.5
_FAILURES = 2
_FAULT = "the API server does not answer"


class ReachabilityCounter(Protocol):
    """Learns the answer."""

    def set_upstream_reachable(self, *, reachable: bool) -> None:
        """Tell whether the API server answers."""
        ...


class ProbeListener(Protocol):
    """Learns the result of each probe."""

    def __call__(self, *, answered: bool) -> None:
        """Take a result."""
        ...


class UpstreamHealth:
    """Asks again and again, and knows whether there were answers lately."""

    def __init__(self, ask: Callable[[], Awaitable[bool]], counter: ReachabilityCounter) -> None:
        """`ask` tells whether there was an answer, in bounded time."""
        self._ask = ask
        self._counter = counter
        self._failures = _FAILURES  # until somebody has answered, nobody does
        self._is_wanted = asyncio.Event()
        self._listeners: list[ProbeListener] = []

    def health_error(self) -> str | None:
        """Tell what is wrong, for who asks whether we are ready."""
        return _FAULT if self._failures >= _FAILURES else None

    def add_listener(self, listener: ProbeListener) -> None:
        """Call this with the result of every probe from now on."""
        self._listeners.append(listener)

    def request_probe(self) -> None:
        """Ask soon, and not only when it is time again."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Ask for as long as it runs; more often while something is wrong."""
        while True:
            self._is_wanted.clear()
            await self.probe()
            await asyncio.sleep(_UNSETTLED_SECONDS)
            if not self._failures:
                await self._wait(_EVERY_SECONDS - _UNSETTLED_SECONDS)

    async def probe(self) -> None:
        """Ask once."""
        was_reachable = self.health_error() is None
        answered = await self._ask()
        self._failures = 0 if answered else self._failures + 1
        for listener in self._listeners:
            listener(answered=answered)
        is_reachable = self.health_error() is None
        if is_reachable == was_reachable:
            return
        self._counter.set_upstream_reachable(reachable=is_reachable)
        if is_reachable:
            log.info("API server answers")
        else:
            log.warning("API server does not answer")

    async def _wait(self, seconds: float) -> None:
        """Wait until a probe is requested, but no longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_wanted.wait()
        except TimeoutError:
            pass
