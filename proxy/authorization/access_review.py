"""The desk where checks are handed in: each asked once, in bounded numbers, or refused at once.

Callers take turns, so that nobody waits behind another one's flood.

A question belongs to no request: identical ones that are under way share one answer, and a client
that leaves does not take it away from others.
"""

import asyncio
from typing import NamedTuple, Protocol

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.circuit_breaker import Breaker
from proxy.concurrency.rate_limit import FairTurns, Rationing
from proxy.concurrency.task_set import Tasks
from proxy.core.authorization.access_check import (
    REFUSED_REVIEW,
    REVIEWS_PATH,
    AccessCheck,
    Answer,
    is_larger_than,
    read_answer,
    review_document,
)
from proxy.core.errors import Refusal, ReviewRefused, UpstreamUnavailable

# Errors of the transport, of HTTP, and of an answer that does not look like one.
_NO_ANSWER = (
    ApiException,
    aiohttp.ClientError,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


class KubernetesAccessReviewer:
    """Asks the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def review(self, check: AccessCheck) -> Answer:
        """Return the authorizers' answer; UpstreamUnavailable when there is none.

        No answer is neither a yes nor a no. A throttled review is no answer either. ReviewRefused
        if the API server does not accept what the review contains.
        """
        try:
            review = await self._client.call_api(
                REVIEWS_PATH,
                "POST",
                body=review_document(check),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return read_answer(review)
        except _NO_ANSWER as error:
            if isinstance(error, ApiException) and error.status in REFUSED_REVIEW:
                raise ReviewRefused(
                    "access cannot be reviewed: the API server does not accept the review of this "
                    f"request (status {error.status})"
                ) from error
            raise UpstreamUnavailable("access cannot be reviewed", retry_after_seconds=1) from error


class Reviewer(Protocol):
    """Answers one check."""

    async def review(self, check: AccessCheck) -> Answer:
        """Return the answer; UpstreamUnavailable when there is none.

        ReviewRefused if it cannot be asked for, whatever the state of the API server.
        """
        ...


class ReviewCounter(Protocol):
    """Counts reviews."""

    def review_ended(self, outcome: str, seconds: float) -> None:
        """Count one review, and how long it took: allowed, denied, refused or error."""
        ...


class ReviewLimits(NamedTuple):
    """What reviews may cost."""

    in_flight: int
    timeout_seconds: float
    """For one review, its waiting for a turn included."""
    document_bytes: int
    """The largest review that is sent, before JSON escapes anything."""


class ReviewDesk:
    """Takes checks and returns tasks that end with their answers."""

    def __init__(
        self,
        reviewer: Reviewer,
        *,
        rationing: Rationing,
        breaker: Breaker,
        counter: ReviewCounter,
        limits: ReviewLimits,
        tasks: Tasks,
    ) -> None:
        self._reviewer = reviewer
        self._rationing = rationing
        self._breaker = breaker
        self._counter = counter
        self._turns = FairTurns(limits.in_flight)
        self._limits = limits
        self._tasks = tasks
        self._asking: dict[AccessCheck, asyncio.Task[Answer]] = {}

    def begin(self, check: AccessCheck) -> asyncio.Task[Answer]:
        """Start asking, or join who asks the same; await the task behind a shield."""
        # Before the check is hashed: a large one costs as much as it has parts.
        if is_larger_than(check, self._limits.document_bytes):
            raise ReviewRefused(
                "access cannot be reviewed: the review of this request would have more than "
                f"{self._limits.document_bytes} bytes"
            )
        asking = self._asking.get(check)
        if asking is None:
            self._breaker.check()
            self._rationing.spend(check.user.name)
            asking = self._tasks.start(self._ask(check))
            self._asking[check] = asking
            asking.add_done_callback(lambda _: self._asking.pop(check, None))
        return asking

    async def _ask(self, check: AccessCheck) -> Answer:
        is_asked = False
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with (
                asyncio.timeout(self._limits.timeout_seconds),
                self._turns.turn_of(check.user.name),
            ):
                is_asked = True
                answer = await self._reviewer.review(check)
        except ReviewRefused:
            # The API server has answered. What it does not like is the caller's.
            self._counter.review_ended("refused", clock() - started)
            raise
        except (Refusal, TimeoutError) as error:
            # A question that never had its turn says nothing about the API server: else a flood
            # of one caller could open the breaker for all.
            if is_asked:
                self._breaker.failed()
            self._counter.review_ended("error", clock() - started)
            raise _refusal(error) from error
        self._breaker.succeeded()
        self._counter.review_ended("allowed" if answer.allowed else "denied", clock() - started)
        return answer


def _refusal(error: Refusal | TimeoutError) -> Refusal:
    if isinstance(error, Refusal):
        return error
    return UpstreamUnavailable("access was not reviewed in time", retry_after_seconds=1)
