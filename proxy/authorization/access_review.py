"""Queue of access checks: each is reviewed once, in bounded numbers, or rejected at once.

Callers are scheduled fairly, so no caller waits behind the flood of another one.

A review belongs to no single request: identical checks in flight share one result, and a client
that disconnects does not cancel it for others.
"""

import asyncio
from typing import NamedTuple

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
    is_review_larger_than,
    parse_review_status,
    subject_access_review,
)
from proxy.core.errors import ReviewRejected, StatusError, UpstreamUnavailable
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics, ShadowMetrics

# Errors of the transport, of HTTP, and of malformed responses.
_REVIEW_ERRORS = (
    ApiException,
    aiohttp.ClientError,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


class KubernetesAccessReviewer:
    """Reviews access by SubjectAccessReview at the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def review(self, check: AccessCheck) -> CheckResult:
        """Return the authorizers' result; raise UpstreamUnavailable if there is none.

        A missing result is neither an allow nor a deny. A throttled review has no result either.
        Raises ReviewRejected if the API server does not accept the contents of the review.
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
        except _REVIEW_ERRORS as error:
            if isinstance(error, ApiException) and error.status in REVIEW_TOO_LARGE:
                raise ReviewRejected(
                    "access cannot be reviewed: the API server does not accept the review of this "
                    f"request (status {error.status})"
                ) from error
            raise UpstreamUnavailable("access cannot be reviewed", retry_after_seconds=1) from error


class ReviewLimits(NamedTuple):
    """The limits of access reviews."""

    in_flight: int
    timeout_seconds: float
    """For one review, including its wait for a slot."""
    document_bytes: int
    """The largest review that is sent, before JSON escaping."""


class AccessReviewQueue:
    """Accepts access checks, and returns tasks that end with their results."""

    def __init__(
        self,
        reviewer: KubernetesAccessReviewer,
        *,
        buckets: KeyedTokenBucket,
        breaker: CircuitBreaker,
        counter: ImpersonationMetrics | ShadowMetrics,
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
        self._in_flight: dict[AccessCheck, asyncio.Task[CheckResult]] = {}

    def submit(self, check: AccessCheck) -> asyncio.Task[CheckResult]:
        """Start a review, or join an identical one; await the task behind a shield."""
        # Before the check is hashed: hashing costs as much as the check has parts.
        if is_review_larger_than(check, self._limits.document_bytes):
            raise ReviewRejected(
                "access cannot be reviewed: the review of this request would have more than "
                f"{self._limits.document_bytes} bytes"
            )
        task = self._in_flight.get(check)
        if task is None:
            self._breaker.check()
            self._buckets.take(check.user.name)
            task = self._tasks.start(self._review(check))
            self._in_flight[check] = task
            task.add_done_callback(lambda _: self._in_flight.pop(check, None))
        return task

    async def _review(self, check: AccessCheck) -> CheckResult:
        is_sent = False
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with (
                asyncio.timeout(self._limits.timeout_seconds),
                self._semaphore.slot(check.user.name),
            ):
                is_sent = True
                result = await self._reviewer.review(check)
        except ReviewRejected:
            # The API server has responded. It rejects the caller's data, so it is not unavailable.
            self._counter.review_ended("refused", clock() - started)
            raise
        except (StatusError, TimeoutError) as error:
            # A review that never got a slot says nothing about the API server. Otherwise a flood
            # of one caller could open the breaker for all callers.
            if is_sent:
                self._breaker.failed()
            self._counter.review_ended("error", clock() - started)
            raise _status_error(error) from error
        self._breaker.succeeded()
        self._counter.review_ended("allowed" if result.allowed else "denied", clock() - started)
        return result


def _status_error(error: StatusError | TimeoutError) -> StatusError:
    if isinstance(error, StatusError):
        return error
    return UpstreamUnavailable("access was not reviewed in time", retry_after_seconds=1)
