"""The `authentication` section: methods by which callers are authenticated."""

import re

from pydantic import Field, PositiveInt, field_validator, model_validator

from proxy.settings.types import Duration, FilePath, StrictModel, Timeout

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class FrontProxySettings(StrictModel):
    """Request-header authentication by an authenticating front proxy."""

    ca_file: FilePath | None = None
    """PEM bundle of the front proxies' CA. A client with a certificate that it verifies may assert
    any user. Absent: the headers below are ignored."""

    from_cluster: bool = False
    """true: use CA, names and headers that the API server publishes. No other key of this section
    may then be set."""

    allowed_names: tuple[str, ...] = Field(default=(), strict=False)
    """Common names that a front proxy's certificate may have. Empty: any, so the CA must sign only
    front proxies."""

    username_headers: tuple[str, ...] = Field(default=("X-Remote-User",), strict=False)
    """The first header with a value is the user name."""

    uid_headers: tuple[str, ...] = Field(default=("X-Remote-Uid",), strict=False)
    """The first header with a value is the uid."""

    group_headers: tuple[str, ...] = Field(default=("X-Remote-Group",), strict=False)
    """Each value of each of these headers is a group."""

    extra_header_prefixes: tuple[str, ...] = Field(default=("X-Remote-Extra-",), strict=False)
    """The rest of the header name after the prefix is the key of an extra."""

    @field_validator("username_headers", "uid_headers", "group_headers", "extra_header_prefixes")
    @classmethod
    def _check_header_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if _HEADER_NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is not a valid header name")
        return names

    @model_validator(mode="after")
    def _check_one_source(self) -> "FrontProxySettings":
        if self.from_cluster and self.model_fields_set - {"from_cluster"}:
            raise ValueError("fromCluster excludes every other key of this section")
        if not self.username_headers:
            raise ValueError("usernameHeaders must not be empty")
        return self


class AnonymousSettings(StrictModel):
    """Requests without any credential, served as `system:anonymous`."""

    enabled: bool = False
    """true: serve requests without a credential as `system:anonymous`. A request with an invalid
    credential still receives 401."""

    paths: tuple[str, ...] = Field(default=(), strict=False)
    """Exact paths that are served anonymously, such as /livez. Empty: all."""

    @model_validator(mode="after")
    def _check_paths(self) -> "AnonymousSettings":
        if self.paths and not self.enabled:
            raise ValueError("paths needs enabled: true")
        if not all(path.startswith("/") for path in self.paths):
            raise ValueError("paths must begin with /")
        return self


class TokenReviewSettings(StrictModel):
    """Bearer tokens, which the API server verifies by TokenReview."""

    enabled: bool = True
    """false: no bearer token is accepted."""

    audiences: tuple[str, ...] = Field(default=(), strict=False)
    """Accepted audiences; a token must have one of them. Empty: the API server's own."""

    success_ttl_seconds: Duration = Field(default=10.0, alias="successTTL")
    """Lifetime of a cached successful review. A revoked token works at most this long, in addition
    to the API server's own cache."""

    timeout_seconds: Timeout = Field(default=10.0, alias="timeout")
    """Deadline of a review. Afterwards the client receives 503, or 429 if the review was never sent
    because others were queued before it."""

    in_flight: PositiveInt = 64
    """Concurrent reviews for all addresses. Further ones are queued, round-robin by address."""

    per_address_per_second: PositiveInt = 50
    """Rate limit for invalid tokens per source address (IPv6: per /64 network): sustained tokens
    per second. When exceeded, every uncached token from there receives 429."""

    per_address_burst: PositiveInt = 500
    """Burst of this rate limit. Pending reviews count until they succeed."""

    token_bytes: PositiveInt = 64 * 1024
    """Bytes of the largest token that is reviewed. When exceeded, the client receives 431. Service
    account tokens have 1 to 2 KB, OIDC tokens with hundreds of groups up to about 30 KB."""


class ClientCertificateSettings(StrictModel):
    """Client certificates (x509)."""

    ca_file: FilePath | None = None
    """PEM bundle of client CAs. The subject of a verified certificate is the user. Absent: no
    client certificate is accepted."""

    from_cluster: bool = False
    """true: use the CA that the API server publishes instead of caFile. The reviewer then needs
    permission to get the ConfigMap kube-system/extension-apiserver-authentication."""

    @model_validator(mode="after")
    def _check_one_source(self) -> "ClientCertificateSettings":
        if self.from_cluster and self.ca_file is not None:
            raise ValueError("caFile and fromCluster are mutually exclusive")
        return self

    @property
    def is_enabled(self) -> bool:
        """Return whether client certificates can authenticate a caller."""
        return self.from_cluster or self.ca_file is not None


class AuthenticationSettings(StrictModel):
    """Authentication of callers. At least one method must be enabled."""

    client_certificate: ClientCertificateSettings = ClientCertificateSettings()
    """Client certificates (x509)."""

    token_review: TokenReviewSettings = TokenReviewSettings()
    """Bearer tokens, which the API server verifies by TokenReview."""

    front_proxy: FrontProxySettings = FrontProxySettings()
    """Request-header authentication by an authenticating front proxy."""

    anonymous: AnonymousSettings = AnonymousSettings()
    """Requests without any credential."""

    @model_validator(mode="after")
    def _check_methods(self) -> "AuthenticationSettings":
        if not self.can_authenticate:
            raise ValueError(
                "no caller could be authenticated: tokenReview is off, and "
                "clientCertificate.caFile is absent"
            )
        return self

    @property
    def can_authenticate(self) -> bool:
        """Return whether at least one authentication method is enabled."""
        front_proxy = self.front_proxy
        return (
            self.client_certificate.is_enabled
            or self.token_review.enabled
            or front_proxy.from_cluster
            or front_proxy.ca_file is not None
            or self.anonymous.enabled
        )
