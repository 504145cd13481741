"""The `impersonation` section: authorization of impersonation."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt

from proxy.settings.types import Duration, StrictModel, Timeout

Fraction = Annotated[float, Field(gt=0, le=1)]


class ShadowSettings(StrictModel):
    """Shadow evaluation: the result of legacy requests under the constrained modes."""

    enabled: bool = False
    """true: evaluate each request that the unrestricted verb has allowed once more in the
    background, by the constrained modes alone. Its response and latency do not change. Metrics and
    the log report the results."""

    sample: Fraction = 1.0
    """Fraction of these requests that is evaluated, above 0 and at most 1, selected at random."""

    queue_size: PositiveInt = 1000
    """Queued requests. When exceeded, further ones are dropped and counted."""

    in_flight: PositiveInt = 4
    """Concurrent evaluations, each with one review in flight, in addition to reviews.inFlight."""

    per_second: PositiveInt = 50
    """Sustained evaluations per second. When exceeded, requests are dropped and counted. Equal
    requests within successTTL are evaluated once."""


# JSON escaping may make a text six times as long. The API server accepts no request above 3 MiB.
MAX_REVIEW_BYTES = 524288
LegacyChoice = Literal["allow", "warn", "deny"]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class LegacyRuleSettings(StrictModel):
    """Treatment of legacy impersonation by the callers that match."""

    users: Names = ()
    """User names."""

    groups: Names = ()
    """Groups. One match is enough."""

    service_accounts: Names = ()
    """Service accounts as `namespace:name`."""

    action: LegacyChoice
    """allow, warn or deny."""


class LegacySettings(StrictModel):
    """Legacy impersonation, by the unrestricted verb `impersonate`."""

    default: LegacyChoice = "allow"
    """Callers without a matching rule: allow, warn or deny. warn allows, and adds a warning that
    kubectl prints."""

    rules: tuple[LegacyRuleSettings, ...] = Field(default=(), strict=False)
    """The first rule that matches the caller applies."""


def _read_legacy(value: object) -> object:
    return {"default": value} if isinstance(value, str) else value


class ImpersonationLimitSettings(StrictModel):
    """Size of the wanted user of one request; each item may cost a review."""

    groups: PositiveInt = 1000
    """Impersonate-Group headers. When exceeded, the caller receives 400."""

    extra_values: PositiveInt = 1000
    """Values of all extras together. When exceeded, the caller receives 400."""

    value_bytes: PositiveInt = 65536
    """Bytes of one value. When exceeded, the caller receives 400."""


class ReviewSettings(StrictModel):
    """SubjectAccessReviews that the proxy sends to the API server."""

    timeout_seconds: Timeout = Field(default=5.0, alias="timeout")
    """Deadline of a review. Afterwards the caller receives 503."""

    in_flight: PositiveInt = 128
    """Concurrent reviews for all callers. Further ones are queued."""

    per_caller_per_second: PositiveInt = 100
    """Rate limit per caller: sustained reviews per second. When exceeded, the caller receives
    429."""

    per_caller_burst: PositiveInt = 2500
    """Burst of this rate limit."""

    document_bytes: Annotated[int, Field(gt=0, le=MAX_REVIEW_BYTES)] = 262144
    """Bytes of one review: the caller's user info, one part of the wanted user, and selectors and
    names of the request. When exceeded, the caller receives 400."""


class ImpersonationSettings(StrictModel):
    """Authorization of impersonation."""

    constrained: bool = True
    """true: the constrained modes of KEP-5284. false: exactly the impersonation filter of servers
    before 1.35, with only the unrestricted verb `impersonate`."""

    legacy: Annotated[LegacySettings, BeforeValidator(_read_legacy)] = LegacySettings()
    """Legacy impersonation: allow, warn or deny the unrestricted verb `impersonate`; or default and
    rules."""

    protected_groups: Names = ("system:masters",)
    """Groups that are forbidden for the impersonated user and for the caller. The caller receives
    403."""

    upgrade_needs_create: bool = False
    """true: exec, attach and port-forward by WebSocket also need impersonate-on:<mode>:create."""

    discovery_warning: bool = True
    """true: a denied request for a path (discovery, for example) gets a Warning header with message
    and Audit-Id. kubectl prints it, and without it only `unknown`. false: as kube-apiserver."""

    mode_cache: bool = True
    """true: try the caller's last successful mode first, as kube-apiserver does. false: decisions
    are independent of earlier requests."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Lifetime of a cached allowed check. A withdrawn permission works at most this long, and twice
    as long for the user part."""

    legacy_ttl_seconds: Duration = Field(default=0.0, alias="legacyTTL")
    """The same for legacy impersonation, which kube-apiserver never caches. 0s: not cached."""

    cache_entries: PositiveInt = 100_000
    """Cached decisions. When exceeded, the oldest are evicted."""

    limits: ImpersonationLimitSettings = ImpersonationLimitSettings()
    """Size of the wanted user of one request."""

    bound_pod_lookup: bool = False
    """true: look up the pod of a service account token that names its pod but no node, as API
    servers before 1.30 issue it. The pod's node is then the associated node. The reviewer then
    needs get on pods (manifests/components/bound-pods). The limits in `reviews` also apply to
    lookups."""

    reviews: ReviewSettings = ReviewSettings()
    """SubjectAccessReviews that the proxy sends to the API server."""

    shadow: ShadowSettings = ShadowSettings()
    """Shadow evaluation: the result of legacy requests under the constrained modes."""
