"""Every setting, its default and its consequence; each section in a file of its own.

Frozen and strict: unknown keys are refused and nothing is coerced. In YAML keys are camelCase and
durations are written `10s`; in Python names are whole words with their unit.
"""

from typing import Literal

from pydantic import model_validator

from proxy.settings.admin import AdminSettings
from proxy.settings.audit import AuditSettings
from proxy.settings.authentication import AuthenticationSettings
from proxy.settings.impersonation import ImpersonationSettings
from proxy.settings.logs import LogSettings
from proxy.settings.serving import ServingSettings
from proxy.settings.strict import StrictModel
from proxy.settings.upstream import UpstreamSettings

API_VERSION = "kube-understudy.io/v1alpha1"
KIND = "ProxyConfiguration"


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
        if not self.authentication.can_authenticate:
            raise ValueError(
                "authentication: with tokenReview off and no clientCertificate.caFile "
                "nobody could ever log in"
            )
        return self
