"""Settings: who is calling."""

from proxy.settings.strict import StrictModel
from proxy.settings.token_review import TokenReviewSettings
from proxy.settings.values import FilePath


class ClientCertificateSettings(StrictModel):
    """Callers known by a client certificate."""

    ca_file: FilePath | None = None
    """PEM bundle. A certificate it verifies is its subject; without it no certificate counts."""


class AuthenticationSettings(StrictModel):
    """Who is calling."""

    client_certificate: ClientCertificateSettings = ClientCertificateSettings()
    """x509 callers."""

    token_review: TokenReviewSettings = TokenReviewSettings()
    """Bearer-token callers."""
