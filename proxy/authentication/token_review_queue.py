"""The desk where unknown tokens are handed in: in bounded numbers, address by address.

Whoever calls here is not known yet, so all that can be held to a measure is where it calls from. A
token costs its address a piece of its ration until its owner is found, so an address pays for
guesses and for what is under way, not for callers.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.core.errors import TooManyRequests, Unauthorized, UpstreamUnavailable
from proxy.core.userinfo import UserInfo


class TokenReviewer(Protocol):
    """Asks whose a token is."""

    async def review(self, token: str) -> UserInfo | None:
        """Return the token's owner, or None for a definite no.

        Raises Unauthorized for anything else that is not a yes, UpstreamUnavailable for no answer.
        """
        ...


class TokenReviewCounter(Protocol):
    """Counts reviews of tokens."""

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        """Count one review: authenticated, refused or error."""
        ...

    def token_turned_away(self, reason: str) -> None:
        """Count one token that was not reviewed: address, turn, abandoned or size."""
        ...


class TokenReviewQueue:
    """Reviews tokens; addresses take turns, so that nobody waits behind another one's flood."""

    def __init__(
        self,
        reviewer: TokenReviewer,
        *,
        buckets: KeyedTokenBucket,
        counter: TokenReviewCounter,
        limits: tuple[int, float],
        clock: Callable[[], float],
    ) -> None:
        """`limits`: reviews in flight, and seconds for one, its waiting for a turn included."""
        self._reviewer = reviewer
        self._buckets = buckets
        self._counter = counter
        self._semaphore = FairSemaphore(limits[0])
        self._timeout_seconds = limits[1]
        self._clock = clock

    def enter(self, origin: str) -> None:
        """Take a piece of the origin's ration for one review, or refuse with 429."""
        try:
            self._buckets.take(origin)
        except TooManyRequests:
            self._counter.token_turned_away("address")
            raise

    def count_oversized(self) -> None:
        """Count a token that is too large to be reviewed."""
        self._counter.token_turned_away("size")

    async def review(
        self, token: str, *, origin: str, when_asked: Callable[[], None]
    ) -> UserInfo | None:
        """Return the token's owner, or None for a definite no; `enter` comes first.

        `when_asked` is called when its turn has come: from then on the API server is being asked.
        Raises Unauthorized for anything else that is not a yes, UpstreamUnavailable for no answer,
        TooManyRequests if its turn did not come in time.
        """
        started = self._clock()
        is_asked, outcome, reason = False, "error", "turn"
        try:
            async with asyncio.timeout(self._timeout_seconds), self._semaphore.slot(origin):
                is_asked = True
                when_asked()
                owner = await self._reviewer.review(token)
            outcome = "refused" if owner is None else "authenticated"
        except Unauthorized:
            outcome = "refused"
            raise
        except asyncio.CancelledError:
            reason = "abandoned"
            raise
        except TimeoutError as error:
            raise _too_late(is_asked=is_asked) from error
        finally:
            if outcome != "refused":
                # An owner was found, or it is not the token's fault that none was.
                self._buckets.refund(origin)
            if is_asked:
                self._counter.token_reviewed(outcome, self._clock() - started)
            else:
                self._counter.token_turned_away(reason)
        return owner


def _too_late(*, is_asked: bool) -> UpstreamUnavailable | TooManyRequests:
    if is_asked:
        return UpstreamUnavailable("the token was not reviewed in time", retry_after_seconds=1)
    return TooManyRequests(
        "too many tokens are being reviewed, please try again later", retry_after_seconds=1
    )
