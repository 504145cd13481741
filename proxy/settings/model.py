"""Every setting, its default and its consequence; each section in a file of its own.

Frozen and strict: unknown keys are refused and nothing is coerced. In YAML keys are camelCase and
durations are written `10s`; in Python names are whole words with their unit.
"""

from typing import Literal

from pydantic import Field, model_validator

from proxy.settings.admin import AdminSettings
from proxy.settings.audit import AuditSettings
from proxy.settings.authentication import AuthenticationSettings
from proxy.settings.impersonation import ImpersonationSettings
from proxy.settings.logs import LogSettings
from proxy.settings.serving import ServingSettings
from proxy.settings.strict import StrictModel
from proxy.settings.tracing import TracingSettings
from proxy.settings.upstream import UpstreamSettings
from proxy.settings.values import Duration

API_VERSION = "kube-understudy.io/v1alpha1"
KIND = "ProxyConfiguration"


class Settings(StrictModel):
    """The whole config file."""

    api_version: Literal["kube-understudy.io/v1alpha1"]
    """The format of this file."""

    kind: Literal["ProxyConfiguration"]
    """The kind of this file."""

    config_refresh_seconds: Duration = Field(default=10.0, alias="configRefresh")
    """How often this file and the audit policy are looked at. What is new is used a second later,
    all of it, or nothing if there is any problem. 0s: only when SIGHUP comes."""

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

    tracing: TracingSettings = TracingSettings()
    """Spans of our own, for those who collect them."""

    @model_validator(mode="after")
    def _ports_differ(self) -> "Settings":
        # Each lets a successor share its port, so the system would not object to one port for both,
        # and send every other probe to the proxy and every other client to the admin port.
        if self.admin.address is not None and _overlap(self.serving.address, self.admin.address):
            raise ValueError("serving.address and admin.address are one and the same port")
        return self


def _overlap(one: tuple[str, int], other: tuple[str, int]) -> bool:
    hosts = {one[0], other[0]}
    is_same_host = len(hosts) == 1 or not hosts.isdisjoint(("0.0.0.0", "::"))  # noqa: S104 - compared
    return one[1] == other[1] != 0 and is_same_host
