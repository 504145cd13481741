"""A question whose answer must be no: may a made-up user do what a made-up verb says?

Our decisions rest on the API server denying what nobody granted. Some authorizers allow verbs they
do not know, or everything; with one of those every caller could become anybody.
"""

import logging
import secrets
from typing import Protocol

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.telemetry.logs import fields
from proxy.upstream.own_identity import NO_ANSWER, call

log = logging.getLogger(__name__)

USER_PREFIX = "understudy-canary-"
_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED = "the API server allows a made-up user a made-up verb: its denials mean nothing"


class CanaryCounter(Protocol):
    """Learns the answer."""

    def canary_answered(self, *, allowed: bool) -> None:
        """Tell whether what nobody may do is allowed."""
        ...


class Canary:
    """Asks, and remembers the last answer; no answer changes nothing, but the first must come."""

    def __init__(self, client: ApiClient, counter: CanaryCounter) -> None:
        self._client = client
        self._counter = counter
        self._fault: str | None = "not asked yet"
        self._is_answered = True

    def fault(self) -> str | None:
        """Tell what is wrong with the API server's answers, for who asks whether we are ready."""
        return self._fault

    async def ask(self) -> bool:
        """Ask once, about somebody who was never asked about before: no cache can answer.

        Tells whether there was an answer.
        """
        try:
            review = await call(self._client, "POST", _PATH, _review())
            allowed = review["status"]["allowed"]
        except (ApiException, *NO_ANSWER) as error:
            status = error.status if isinstance(error, ApiException) else None
            if self._is_answered:  # once, not at every question of an outage
                log.warning(
                    "canary not answered", extra=fields(error=type(error).__name__, status=status)
                )
            self._is_answered = False
            if self._fault is not None and self._fault != _ALLOWED:
                self._fault = f"access reviews are not answered (status {status})"
            return False
        self._is_answered = True
        # Whatever is not a plain no is not one.
        is_denied = allowed is False
        self._counter.canary_answered(allowed=not is_denied)
        if not is_denied and self._fault != _ALLOWED:
            log.error("canary allowed", extra=fields(reason=_ALLOWED))
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
