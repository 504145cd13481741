"""Settings: who is calling."""

from pydantic import model_validator

from proxy.settings.front_proxy import AnonymousSettings, FrontProxySettings
from proxy.settings.strict import StrictModel
from proxy.settings.token_review import TokenReviewSettings
from proxy.settings.values import FilePath


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
