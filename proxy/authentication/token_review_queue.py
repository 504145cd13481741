"""Queue of token reviews, bounded in number and rate-limited per source address.

The caller is not authenticated yet, so only its source address can be limited. A review takes one
unit of the address's rate limit, which is refunded unless the token is rejected. So an address pays
for invalid tokens and for reviews in flight, not for authenticated callers.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.core.errors import TooManyRequests, Unauthorized, UpstreamUnavailable
from proxy.core.userinfo import UserInfo


class TokenReviewer(Protocol):
    """Reviews one token."""

    async def review(self, token: str) -> UserInfo | None:
        """Return the token's user, or None if it is definitely rejected.

        Raises Unauthorized for any other result that is not a success, and UpstreamUnavailable if
        there is no result.
        """
        ...


class TokenReviewCounter(Protocol):
    """Counts token reviews."""

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        """Count one review; outcomes: authenticated, refused, error."""
        ...

    def token_rejected(self, reason: str) -> None:
        """Count one token that was not reviewed; reasons: address, turn, abandoned, size."""
        ...


class TokenReviewQueue:
    """Reviews tokens; addresses are scheduled fairly, so none waits behind another one's flood."""

    def __init__(
        self,
        reviewer: TokenReviewer,
        *,
        buckets: KeyedTokenBucket,
        counter: TokenReviewCounter,
        limits: tuple[int, float],
        clock: Callable[[], float],
    ) -> None:
        """`limits`: reviews in flight, and seconds for one, including its wait for a slot."""
        self._reviewer = reviewer
        self._buckets = buckets
        self._counter = counter
        self._semaphore = FairSemaphore(limits[0])
        self._timeout_seconds = limits[1]
        self._clock = clock

    def take_rate_limit(self, origin: str) -> None:
        """Take one unit of the origin's rate limit for a review; raise TooManyRequests if none."""
        try:
            self._buckets.take(origin)
        except TooManyRequests:
            self._counter.token_rejected("address")
            raise

    def count_oversized(self) -> None:
        """Count a token that is too large to be reviewed."""
        self._counter.token_rejected("size")

    async def review(
        self, token: str, *, origin: str, when_sent: Callable[[], None]
    ) -> UserInfo | None:
        """Return the token's user, or None if it is definitely rejected; call `enter` first.

        `when_sent` is called when the review gets a slot: from then on it is being sent.
        Raises Unauthorized for any other result that is not a success, UpstreamUnavailable if there
        is no result, and TooManyRequests if it gets no slot in time.
        """
        started = self._clock()
        is_sent, outcome, reason = False, "error", "turn"
        try:
            async with asyncio.timeout(self._timeout_seconds), self._semaphore.slot(origin):
                is_sent = True
                when_sent()
                user = await self._reviewer.review(token)
            outcome = "refused" if user is None else "authenticated"
        except Unauthorized:
            outcome = "refused"
            raise
        except asyncio.CancelledError:
            reason = "abandoned"
            raise
        except TimeoutError as error:
            raise _timeout_error(is_sent=is_sent) from error
        finally:
            if outcome != "refused":
                # The token is valid, or the review failed for a reason other than the token.
                self._buckets.refund(origin)
            if is_sent:
                self._counter.token_reviewed(outcome, self._clock() - started)
            else:
                self._counter.token_rejected(reason)
        return user


def _timeout_error(*, is_sent: bool) -> UpstreamUnavailable | TooManyRequests:
    if is_sent:
        return UpstreamUnavailable("the token was not reviewed in time", retry_after_seconds=1)
    return TooManyRequests(
        "too many tokens are being reviewed, please try again later", retry_after_seconds=1
    )
