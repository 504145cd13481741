"""Settings: who may act as whom."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt

from proxy.settings.types import Duration, StrictModel, Timeout

Fraction = Annotated[float, Field(gt=0, le=1)]


class ShadowSettings(StrictModel):
    """Judge what legacy impersonation has allowed by the constrained rules, and tell; no more."""

    enabled: bool = False
    """On: each such request is judged once more beside its way. Its answer and its time stay as
    they are; metrics and the log tell what the constrained rules would have said."""

    sample: Fraction = 1.0
    """The part of these requests that is judged, chosen by chance."""

    queue_size: PositiveInt = 1000
    """Requests that wait to be judged; more are dropped, and counted."""

    in_flight: PositiveInt = 4
    """Requests judged at a time, each with one review under way. They have no part in
    reviews.inFlight, and wait for nobody there."""

    per_second: PositiveInt = 50
    """Requests judged per second in the long run; more are dropped, and counted. Equal ones within
    successTTL are judged once."""


# JSON may make a text six times as long, and the API server takes no request above 3 MiB.
MAX_REVIEW_BYTES = 524288
LegacyChoice = Literal["allow", "warn", "deny"]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class LegacyRuleSettings(StrictModel):
    """What becomes of the legacy impersonation of some callers."""

    users: Names = ()
    """User names."""

    groups: Names = ()
    """Groups, one of which is enough."""

    service_accounts: Names = ()
    """Service accounts as `namespace:name`."""

    action: LegacyChoice
    """What becomes of theirs."""


class LegacySettings(StrictModel):
    """Who may still impersonate by the unrestricted verb `impersonate`."""

    default: LegacyChoice = "allow"
    """For callers that no rule names. warn: allowed, with a warning that kubectl prints."""

    rules: tuple[LegacyRuleSettings, ...] = Field(default=(), strict=False)
    """The first rule that names the caller decides."""


def _read_legacy(value: object) -> object:
    return {"default": value} if isinstance(value, str) else value


class ImpersonationLimitSettings(StrictModel):
    """How much identity one request may ask for; each item may cost a review."""

    groups: PositiveInt = 1000
    """Impersonate-Group headers; more are a 400."""

    extra_values: PositiveInt = 1000
    """Values of all extras together; more are a 400."""

    value_bytes: PositiveInt = 65536
    """Length of one value; a longer one is a 400."""


class ReviewSettings(StrictModel):
    """The questions we ask the API server: SubjectAccessReviews."""

    timeout_seconds: Timeout = Field(default=5.0, alias="timeout")
    """After this long without an answer the client is told 503."""

    in_flight: PositiveInt = 128
    """Reviews under way at a time, for all callers together; more wait."""

    per_caller_per_second: PositiveInt = 100
    """Reviews one caller may cost per second in the long run; beyond it 429."""

    per_caller_burst: PositiveInt = 2500
    """Reviews one caller may cost at once after a quiet time."""

    document_bytes: Annotated[int, Field(gt=0, le=MAX_REVIEW_BYTES)] = 262144
    """Size of one review: the caller's identity, one part of the wanted identity, and the selectors
    and names of the request. A request that needs a larger one is a 400."""


class ImpersonationSettings(StrictModel):
    """May the caller act as that identity, for this action?"""

    constrained: bool = True
    """Off: exactly the filter of servers before 1.35, which knows only `impersonate`."""

    legacy: Annotated[LegacySettings, BeforeValidator(_read_legacy)] = LegacySettings()
    """allow, warn or deny the unrestricted verb `impersonate`; or default and rules."""

    protected_groups: Names = ("system:masters",)
    """Groups nobody acts with here, neither by impersonation of any kind nor as oneself."""

    upgrade_needs_create: bool = False
    """On: exec, attach and port-forward by WebSocket need the impersonated create, too."""

    mode_cache: bool = True
    """Try the mode first that last worked for a caller, as the native server does. Off: every
    decision is independent of history."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Longest time a withdrawn permission keeps working (twice that for the identity part)."""

    legacy_ttl_seconds: Duration = Field(default=0.0, alias="legacyTTL")
    """The same for legacy impersonation, which the native server never remembers."""

    cache_entries: PositiveInt = 100_000
    """Decisions remembered at a time; the oldest are forgotten first."""

    limits: ImpersonationLimitSettings = ImpersonationLimitSettings()
    """How much identity one request may ask for."""

    bound_pod_lookup: bool = False
    """On: a service account's token that names its pod but no node (API servers before 1.30) gets
    its associated node by a look at that pod. Our own identity then needs the verb get on pods
    (manifests/components/bound-pods). The limits of reviews hold for these look-ups as well."""

    reviews: ReviewSettings = ReviewSettings()
    """The questions we ask the API server."""

    shadow: ShadowSettings = ShadowSettings()
    """Judge what legacy impersonation has allowed by the constrained rules, and tell; no more."""
