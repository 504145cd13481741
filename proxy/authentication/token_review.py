"""Token reviews by the API server: bounded in number, and rate-limited per source address.

The caller is not authenticated yet, so only its source address can be limited. A review takes one
unit of the address's rate limit, which is refunded unless the token is rejected. So an address pays
for invalid tokens and for reviews in flight, not for authenticated callers.
"""

import asyncio
from collections.abc import Callable, Sequence

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.core.authorization.access_check import REVIEW_TOO_LARGE
from proxy.core.errors import TooManyRequests, Unauthorized, UpstreamUnavailable
from proxy.core.userinfo import UserInfo, make_extra, with_authenticated
from proxy.telemetry.metrics.authentication import TokenMetrics

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
# kube-apiserver never sends `authenticated: false`: it omits the field and sends an error. It sends
# this error if none of its token authenticators accepts the token, and none of them has failed.
_UNKNOWN_TOKEN = "invalid bearer token"  # noqa: S105 - an error message

# Errors of the transport, of HTTP, and of malformed responses.
_REVIEW_ERRORS = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    KeyError,
    OSError,
    TimeoutError,
    TypeError,
    ValueError,
)


class KubernetesTokenReviewer:
    """Reviews tokens by TokenReview at the API server."""

    def __init__(self, client: ApiClient, *, audiences: Sequence[str] = ()) -> None:
        self._client = client
        self._audiences = list(audiences)

    async def review(self, token: str) -> UserInfo | None:
        """Return the token's user, or None if it is definitely rejected.

        Raises Unauthorized for any other result that is not a success, and UpstreamUnavailable if
        there is no result.
        """
        try:
            # Parsed as plain JSON: the library's model would read the string "false" as true.
            review = await self._client.call_api(
                _PATH,
                "POST",
                body=_token_review(token, self._audiences),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return self._user(review["status"])
        except _REVIEW_ERRORS as error:
            if isinstance(error, ApiException) and error.status in REVIEW_TOO_LARGE:
                # The API server has responded: it does not accept this as a token, so this is not
                # an outage. The cause is dropped because it may contain the token.
                raise Unauthorized from None
            # Never a 401: the client would discard a token that may be valid.
            raise UpstreamUnavailable("the token cannot be reviewed") from error

    def _user(self, status: dict[str, object]) -> UserInfo | None:
        if _is_definite_rejection(status):
            return None
        if status.get("authenticated") is not True or status.get("error"):
            raise Unauthorized
        if not self._has_audience(status.get("audiences")):
            raise Unauthorized
        return _user_info(status.get("user"))

    def _has_audience(self, audiences: object) -> bool:
        """Return whether the token is valid for a configured audience.

        An API server without audience support returns none. Then this cannot be verified, and the
        token is rejected.
        """
        return not self._audiences or not set(self._audiences).isdisjoint(_strings(audiences))


def _is_definite_rejection(status: dict[str, object]) -> bool:
    """Return whether the token was checked and definitely rejected.

    Any other error may be a failure of the authenticator, such as a webhook timeout.
    """
    is_rejected = status.get("authenticated", False) is False
    return is_rejected and (
        status.get("error") == _UNKNOWN_TOKEN
        or ("authenticated" in status and not status.get("error"))
    )


def _token_review(token: str, audiences: Sequence[str]) -> dict[str, object]:
    specification: dict[str, object] = {"token": token}
    if audiences:
        specification["audiences"] = audiences
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": specification,
    }


def _user_info(user: object) -> UserInfo:
    if not isinstance(user, dict) or not user.get("username"):
        raise Unauthorized
    (name, uid) = _strings([user["username"], user.get("uid") or ""])
    extra = user.get("extra") or {}
    return UserInfo(
        name=name,
        uid=uid,
        groups=with_authenticated(_strings(user.get("groups"))),
        extra=make_extra({key: _strings(values) for key, values in extra.items()}),
    )


def _strings(values: object) -> list[str]:
    """Return a list of strings, or raise TypeError: a partial user info must not be used."""
    texts = [] if values is None else values
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError("not a list of strings")
    return texts


class TokenReviewQueue:
    """Reviews tokens; addresses are scheduled fairly, so none waits behind another one's flood."""

    def __init__(
        self,
        reviewer: KubernetesTokenReviewer,
        *,
        buckets: KeyedTokenBucket,
        counter: TokenMetrics,
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
