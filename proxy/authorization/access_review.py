"""The desk where checks are handed in: each asked once, in bounded numbers, or refused at once.

Callers take turns, so that nobody waits behind another one's flood.

A question belongs to no request: identical ones that are under way share one answer, and a client
that leaves does not take it away from others.
"""

import asyncio
from typing import NamedTuple, Protocol

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import (
    REVIEW_TOO_LARGE,
    REVIEWS_PATH,
    AccessCheck,
    CheckResult,
    is_larger_than,
    parse_review_status,
    subject_access_review,
)
from proxy.core.errors import ReviewRejected, StatusError, UpstreamUnavailable

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

    async def review(self, check: AccessCheck) -> CheckResult:
        """Return the authorizers' answer; UpstreamUnavailable when there is none.

        No answer is neither a yes nor a no. A throttled review is no answer either. ReviewRejected
        if the API server does not accept what the review contains.
        """
        try:
            review = await self._client.call_api(
                REVIEWS_PATH,
                "POST",
                body=subject_access_review(check),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return parse_review_status(review)
        except _NO_ANSWER as error:
            if isinstance(error, ApiException) and error.status in REVIEW_TOO_LARGE:
                raise ReviewRejected(
                    "access cannot be reviewed: the API server does not accept the review of this "
                    f"request (status {error.status})"
                ) from error
            raise UpstreamUnavailable("access cannot be reviewed", retry_after_seconds=1) from error


class Reviewer(Protocol):
    """Answers one check."""

    async def review(self, check: AccessCheck) -> CheckResult:
        """Return the answer; UpstreamUnavailable when there is none.

        ReviewRejected if it cannot be asked for, whatever the state of the API server.
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


class AccessReviewQueue:
    """Takes checks and returns tasks that end with their answers."""

    def __init__(
        self,
        reviewer: Reviewer,
        *,
        buckets: KeyedTokenBucket,
        breaker: CircuitBreaker,
        counter: ReviewCounter,
        limits: ReviewLimits,
        tasks: TaskSet,
    ) -> None:
        self._reviewer = reviewer
        self._buckets = buckets
        self._breaker = breaker
        self._counter = counter
        self._semaphore = FairSemaphore(limits.in_flight)
        self._limits = limits
        self._tasks = tasks
        self._asking: dict[AccessCheck, asyncio.Task[CheckResult]] = {}

    def submit(self, check: AccessCheck) -> asyncio.Task[CheckResult]:
        """Start asking, or join who asks the same; await the task behind a shield."""
        # Before the check is hashed: a large one costs as much as it has parts.
        if is_larger_than(check, self._limits.document_bytes):
            raise ReviewRejected(
                "access cannot be reviewed: the review of this request would have more than "
                f"{self._limits.document_bytes} bytes"
            )
        asking = self._asking.get(check)
        if asking is None:
            self._breaker.check()
            self._buckets.take(check.user.name)
            asking = self._tasks.start(self._ask(check))
            self._asking[check] = asking
            asking.add_done_callback(lambda _: self._asking.pop(check, None))
        return asking

    async def _ask(self, check: AccessCheck) -> CheckResult:
        is_asked = False
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with (
                asyncio.timeout(self._limits.timeout_seconds),
                self._semaphore.slot(check.user.name),
            ):
                is_asked = True
                result = await self._reviewer.review(check)
        except ReviewRejected:
            # The API server has answered. What it does not like is the caller's.
            self._counter.review_ended("refused", clock() - started)
            raise
        except (StatusError, TimeoutError) as error:
            # A question that never had its turn says nothing about the API server: else a flood
            # of one caller could open the breaker for all.
            if is_asked:
                self._breaker.failed()
            self._counter.review_ended("error", clock() - started)
            raise _refusal(error) from error
        self._breaker.succeeded()
        self._counter.review_ended("allowed" if result.allowed else "denied", clock() - started)
        return result


def _refusal(error: StatusError | TimeoutError) -> StatusError:
    if isinstance(error, StatusError):
        return error
    return UpstreamUnavailable("access was not reviewed in time", retry_after_seconds=1)
