"""Every setting, its default and its consequence.

Frozen and strict: unknown keys are refused and nothing is coerced. In YAML keys are camelCase and
durations are written `10s`; in Python names are whole words with their unit.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from proxy.settings.serving import ServingSettings
from proxy.settings.strict import StrictModel
from proxy.settings.values import Address, Duration, FilePath, Server, Timeout

API_VERSION = "kube-understudy.io/v1alpha1"
KIND = "ProxyConfiguration"


class ClientCertificateSettings(StrictModel):
    """Callers known by a client certificate."""

    ca_file: FilePath | None = None
    """PEM bundle. A certificate it verifies is its subject; without it no certificate counts."""


class TokenReviewSettings(StrictModel):
    """Callers known by a bearer token, which the API server verifies for us."""

    enabled: bool = True
    """Off: a bearer token never authenticates anybody."""

    audiences: tuple[str, ...] = Field(default=(), strict=False)
    """Tokens must be meant for one of these. Empty: for the API server itself."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Longest time a revoked token keeps working here, on top of the API server's own memory."""


class AuthenticationSettings(StrictModel):
    """Who is calling."""

    client_certificate: ClientCertificateSettings = ClientCertificateSettings()
    """x509 callers."""

    token_review: TokenReviewSettings = TokenReviewSettings()
    """Bearer-token callers."""


class UpstreamSettings(StrictModel):
    """The API server behind us, and who we are there."""

    kubeconfig: FilePath | None = None
    """Server, CA and credential of our own identity. Absent: the pod's service account. All of it
    is read again from time to time; what cannot be used leaves the old one in force."""

    endpoints: tuple[Server, ...] = Field(default=(), strict=False)
    """API servers of one cluster as https://HOST[:PORT], in place of the one address of the
    kubeconfig or the pod. The first that can be reached is used; one that cannot is tried last
    for five seconds. Only connecting fails over: a request that was sent is never sent to another
    server. All must be known by the same CA, and by tls-server-name if the kubeconfig has one."""

    credential_refresh_seconds: Timeout = Field(default=10.0, alias="credentialRefresh")
    """Longest time a rotated token, certificate or CA goes unnoticed. A credential of an exec
    plugin is asked for anew a minute before it expires, and when the API server refuses it."""

    connect_timeout_seconds: Timeout = Field(default=5.0, alias="connectTimeout")
    """After this long without a connection the client is told 503; all endpoints share it."""

    response_timeout_seconds: Timeout = Field(default=70.0, alias="responseTimeout")
    """After this long without an answer's head the client is told 504. Watches, logs, exec and
    the like have no such limit."""

    original_user_extra: bool = False
    """On: an impersonated request names its caller to the API server, in extras under
    `original-user.kube-understudy.io/`. Our own identity then needs the verb impersonate on
    `userextras/original-user.kube-understudy.io/name`, `.../uid` and `.../groups`."""


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

    mode_memory: bool = True
    """Try the mode first that last worked for a caller, as the native server does. Off: every
    decision is independent of history."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Longest time a withdrawn permission keeps working (twice that for the identity part)."""

    legacy_ttl_seconds: Duration = Field(default=0.0, alias="legacyCache")
    """The same for legacy impersonation, which the native server never remembers."""

    cache_entries: PositiveInt = 100_000
    """Decisions remembered at a time; the oldest are forgotten first."""

    limits: ImpersonationLimitSettings = ImpersonationLimitSettings()
    """How much identity one request may ask for."""

    reviews: ReviewSettings = ReviewSettings()
    """The questions we ask the API server."""


class AuditLogSettings(StrictModel):
    """The audit trail as a file."""

    path: FilePath | None = None
    """One audit.k8s.io/v1 event a line is appended here. Absent: no audit file."""


class AuditSettings(StrictModel):
    """What happened, for auditors."""

    log: AuditLogSettings = AuditLogSettings()
    """The audit trail as a file."""


class AdminSettings(StrictModel):
    """The port for operators and their tools."""

    address: Address | None = None
    """Where /livez, /readyz and /metrics are served, in plain HTTP. Absent: nowhere."""

    kep_metric_names: bool = False
    """On: durations also under the names of the KEP's text, which no server ever had."""


class LogSettings(StrictModel):
    """Our own log."""

    format: Literal["json", "text"] = "json"
    """One JSON object a line, or text for people."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important line that is written. No level shows secrets."""


class Settings(StrictModel):
    """The whole config file."""

    api_version: Literal["kube-understudy.io/v1alpha1"]
    """The format of this file."""

    kind: Literal["ProxyConfiguration"]
    """The kind of this file."""

    serving: ServingSettings
    """The port clients connect to."""

    authentication: AuthenticationSettings = AuthenticationSettings()
    """Who is calling."""

    upstream: UpstreamSettings = UpstreamSettings()
    """The API server behind us."""

    impersonation: ImpersonationSettings = ImpersonationSettings()
    """Who may act as whom."""

    audit: AuditSettings = AuditSettings()
    """What happened, for auditors."""

    admin: AdminSettings = AdminSettings()
    """The port for operators and their tools."""

    log: LogSettings = LogSettings()
    """Our own log."""

    @model_validator(mode="after")
    def _someone_can_log_in(self) -> "Settings":
        authentication = self.authentication
        if authentication.client_certificate.ca_file is None and not (
            authentication.token_review.enabled
        ):
            raise ValueError(
                "authentication: with tokenReview off and no clientCertificate.caFile "
                "nobody could ever log in"
            )
        return self
