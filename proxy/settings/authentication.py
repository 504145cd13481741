"""Settings: who is calling."""

import re

from pydantic import Field, PositiveInt, field_validator, model_validator

from proxy.settings.types import Duration, FilePath, StrictModel, Timeout

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class FrontProxySettings(StrictModel):
    """Callers that an authenticating proxy before us speaks for, in headers."""

    ca_file: FilePath | None = None
    """PEM bundle. Who shows a certificate it verifies may speak for anybody. Absent: nobody may,
    and such headers say nothing."""

    from_cluster: bool = False
    """On: CA, names and headers as the cluster publishes them, in place of all others here."""

    allowed_names: tuple[str, ...] = Field(default=(), strict=False)
    """Common names a front proxy's certificate may have. Empty: any, so the CA must sign nothing
    but front proxies."""

    username_headers: tuple[str, ...] = Field(default=("X-Remote-User",), strict=False)
    """The first of these that has a value names the user."""

    uid_headers: tuple[str, ...] = Field(default=("X-Remote-Uid",), strict=False)
    """The first of these that has a value is the uid."""

    group_headers: tuple[str, ...] = Field(default=("X-Remote-Group",), strict=False)
    """Each value of each of these is a group."""

    extra_header_prefixes: tuple[str, ...] = Field(default=("X-Remote-Extra-",), strict=False)
    """What follows one of these in a header's name is the key of an extra."""

    @field_validator("username_headers", "uid_headers", "group_headers", "extra_header_prefixes")
    @classmethod
    def _are_headers(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if _HEADER_NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is not the name of a header")
        return names

    @model_validator(mode="after")
    def _has_one_source(self) -> "FrontProxySettings":
        if self.from_cluster and self.model_fields_set - {"from_cluster"}:
            raise ValueError("with fromCluster nothing else can be set: the cluster tells it all")
        if not self.username_headers:
            raise ValueError("usernameHeaders must name a header")
        return self


class AnonymousSettings(StrictModel):
    """Callers without any credential: `system:anonymous`."""

    enabled: bool = False
    """On: who shows no credential is served as `system:anonymous`. A bad credential is a 401."""

    paths: tuple[str, ...] = Field(default=(), strict=False)
    """Only these paths, exactly, such as /livez. Empty: all."""

    @model_validator(mode="after")
    def _paths_need_it(self) -> "AnonymousSettings":
        if self.paths and not self.enabled:
            raise ValueError("paths need enabled: true")
        if not all(path.startswith("/") for path in self.paths):
            raise ValueError("paths must begin with /")
        return self


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


class ClientCertificateSettings(StrictModel):
    """Callers known by a client certificate."""

    ca_file: FilePath | None = None
    """PEM bundle. A certificate it verifies is its subject; without it no certificate counts."""

    from_cluster: bool = False
    """On: the CA that the cluster publishes in place of a file. Our own identity then needs to get
    the ConfigMap kube-system/extension-apiserver-authentication."""

    @model_validator(mode="after")
    def _has_one_source(self) -> "ClientCertificateSettings":
        if self.from_cluster and self.ca_file is not None:
            raise ValueError("caFile and fromCluster exclude each other")
        return self

    @property
    def is_enabled(self) -> bool:
        """Tell whether a certificate can be a caller's credential."""
        return self.from_cluster or self.ca_file is not None


class AuthenticationSettings(StrictModel):
    """Who is calling."""

    client_certificate: ClientCertificateSettings = ClientCertificateSettings()
    """x509 callers."""

    token_review: TokenReviewSettings = TokenReviewSettings()
    """Bearer-token callers."""

    front_proxy: FrontProxySettings = FrontProxySettings()
    """Callers that an authenticating proxy before us speaks for."""

    anonymous: AnonymousSettings = AnonymousSettings()
    """Callers without any credential."""

    @model_validator(mode="after")
    def _someone_can_log_in(self) -> "AuthenticationSettings":
        if not self.can_authenticate:
            raise ValueError(
                "with tokenReview off and no clientCertificate.caFile nobody could ever log in"
            )
        return self

    @property
    def can_authenticate(self) -> bool:
        """Tell whether anybody could ever be served."""
        front_proxy = self.front_proxy
        return (
            self.client_certificate.is_enabled
            or self.token_review.enabled
            or front_proxy.from_cluster
            or front_proxy.ca_file is not None
            or self.anonymous.enabled
        )
