"""Periodic probe of the API server, so that readiness does not depend on client requests.

The probe is the canary's SubjectAccessReview. A result means that the API server is reachable,
accepts the reviewer's credential, and reviews access. An HTTP response without a result means that
it is reachable. One success is conclusive; one failure is not, so several failures are needed.

This is the only probe of the API server's reviews. The circuit breaker uses its results, and can
request a probe early. The minimum interval between two probes applies nevertheless.
"""

import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.identity.whoami import CALL_ERRORS, call

log = logging.getLogger(__name__)

USER_PREFIX = "understudy-canary-"
_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED = "the authorizer allows an unknown user an unknown verb, so its answers cannot be trusted"


class AuthorizerCanary:
    """Reviews a canary that must be denied, and keeps the last result.

    A failed review leaves the result unchanged. Until the first success the canary is unhealthy.
    """

    def __init__(self, client: ApiClient, counter: UpstreamMetrics) -> None:
        self._client = client
        self._counter = counter
        self._error: str | None = "not reviewed yet"
        self._is_answered = True
        self.response_code = 0
        """Status code of the last probe's response; 0 if there was none."""

    def health_error(self) -> str | None:
        """Return what is wrong with access reviews, for the readiness check; else None."""
        return self._error

    async def probe(self) -> bool:
        """Send one review about a new random user, and return whether it was answered.

        No cache can answer for a user that was never reviewed before.
        """
        try:
            review = await call(self._client, "POST", _PATH, _review())
            allowed = review["status"]["allowed"]
        except (ApiException, *CALL_ERRORS) as error:
            status = error.status if isinstance(error, ApiException) else None
            if self._is_answered or status != self.response_code:  # once per outage, not per probe
                log.warning(
                    "authorizer canary not answered",
                    extra=fields(
                        error=type(error).__name__, status=status, reason=_server_message(error)
                    ),
                )
            self._is_answered, self.response_code = False, status or 0
            if self._error is not None and self._error != _ALLOWED:
                suffix = f" (status {status})" if status else ""
                self._error = f"access reviews are not answered{suffix}"
            return False
        self._is_answered, self.response_code = True, HTTPStatus.OK.value
        # Only an explicit false is a denial.
        is_denied = allowed is False
        self._counter.canary_completed(allowed=not is_denied)
        if not is_denied and self._error != _ALLOWED:
            log.error("authorizer canary was allowed", extra=fields(reason=_ALLOWED))
        self._error = None if is_denied else _ALLOWED
        return True


def _server_message(error: Exception) -> str | None:
    """Return the message of an error response, which names a missing permission."""
    try:
        body = error.body if isinstance(error, ApiException) else None
        message = json.loads(body or b"")["message"]
    except (KeyError, TypeError, ValueError):
        return None
    return message if isinstance(message, str) else None


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


_INTERVAL_SECONDS = 2.0
_MIN_INTERVAL_SECONDS = 0.5
_MAX_FAILURES = 2
_SILENT = "the API server does not answer"
_DENIALS = {
    HTTPStatus.UNAUTHORIZED.value: "the API server rejects the reviewer's credential (401)",
    HTTPStatus.FORBIDDEN.value: "the reviewer cannot create "
    "subjectaccessreviews.authorization.k8s.io (403): apply manifests/base/reviewer.yaml",
}


class UpstreamHealth:
    """Probes the API server periodically, and reports whether it is reachable."""

    def __init__(
        self,
        send_probe: Callable[[], Awaitable[bool]],
        counter: UpstreamMetrics,
        *,
        response_code: Callable[[], int],
        tasks: TaskSet,
    ) -> None:
        """`send_probe` returns whether the probe was answered, within a timeout.

        `response_code` returns the status code of the last probe's response; 0 without a response.
        """
        self._send_probe = send_probe
        self._response_code = response_code
        self._was_reachable = False
        self._counter = counter
        self._failures = _MAX_FAILURES  # unreachable until the first probe succeeds
        self._loop = RefreshLoop(self.probe, delay=self._delay, tasks=tasks)
        self._breakers: list[CircuitBreaker] = []

    def health_error(self) -> str | None:
        """Return what is wrong with the API server, for the readiness check; else None.

        A response that denies the review is no failure of the API server: `permission_error`
        reports it.
        """
        if self._failures < _MAX_FAILURES or self._is_denied():
            return None
        code = self._response_code()
        return f"the API server responds with status {code} to access reviews" if code else _SILENT

    def permission_error(self) -> str | None:
        """Return which permission the reviewer lacks, for the readiness check; else None."""
        if self._failures < _MAX_FAILURES or not self._is_denied():
            return None
        return _DENIALS[self._response_code()]

    def _is_denied(self) -> bool:
        return self._response_code() in _DENIALS

    def _is_reachable(self) -> bool:
        return self._failures < _MAX_FAILURES or self._response_code() != 0

    def add_breaker(self, breaker: CircuitBreaker) -> None:
        """Report the result of every probe to this breaker from now on."""
        self._breakers.append(breaker)

    def request_probe(self) -> None:
        """Request a probe before the regular interval ends."""
        self._loop.trigger()

    async def run(self) -> None:
        """Probe until cancelled; more often while probes fail."""
        await self._loop.run(starts_at_once=True)

    async def probe(self) -> None:
        """Send one probe, and update the state."""
        answered = await self._send_probe()
        self._failures = 0 if answered else self._failures + 1
        for breaker in self._breakers:
            breaker.on_probe(answered=answered)
        is_reachable = self._is_reachable()
        if is_reachable == self._was_reachable:
            return
        self._was_reachable = is_reachable
        self._counter.set_upstream_reachable(reachable=is_reachable)
        if is_reachable:
            log.info("API server reached again")
        else:
            log.warning("API server not reached")

    def _delay(self) -> Delay:
        seconds = 0.0 if self._failures else _INTERVAL_SECONDS - _MIN_INTERVAL_SECONDS
        return Delay(seconds, pause_seconds=_MIN_INTERVAL_SECONDS)
