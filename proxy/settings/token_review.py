"""Settings: callers known by a bearer token."""

from pydantic import Field, PositiveInt

from proxy.settings.strict import StrictModel
from proxy.settings.values import Duration, Timeout


class TokenReviewSettings(StrictModel):
    """Callers known by a bearer token, which the API server verifies for us."""

    enabled: bool = True
    """Off: a bearer token never authenticates anybody."""

    audiences: tuple[str, ...] = Field(default=(), strict=False)
    """Tokens must be meant for one of these. Empty: for the API server itself."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Longest time a revoked token keeps working here, on top of the API server's own memory."""

    timeout_seconds: Timeout = Field(default=10.0, alias="timeout")
    """After this long without an answer the client is told 503, and 429 if the question had to
    wait for others all the time."""

    in_flight: PositiveInt = 64
    """Reviews under way at a time, for all addresses together; more wait, address by address."""

    per_address_per_second: PositiveInt = 50
    """Tokens one address may bring that are nobody's, per second in the long run; beyond it every
    token from there that is not remembered is told 429."""

    per_address_burst: PositiveInt = 500
    """The same at once, after a quiet time. Reviews that are under way count as well."""

    token_bytes: PositiveInt = 64 * 1024
    """The largest token that is reviewed; a larger one is told 431. Tokens of service accounts have
    1 to 2 KB, OIDC tokens with hundreds of groups up to about 30 KB."""
