"""Settings: who is calling."""

from pydantic import Field

from proxy.settings.strict import StrictModel
from proxy.settings.values import Duration, FilePath


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
