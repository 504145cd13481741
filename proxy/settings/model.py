"""Every setting, its default and its consequence; each section in a file of its own.

Frozen and strict: unknown keys are refused and nothing is coerced. In YAML keys are camelCase and
durations are written `10s`; in Python names are whole words with their unit.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from proxy.settings.admin import AdminSettings
from proxy.settings.audit import AuditSettings
from proxy.settings.authentication import AuthenticationSettings
from proxy.settings.impersonation import ImpersonationSettings
from proxy.settings.serving import ServingSettings
from proxy.settings.telemetry import LogSettings, TracingSettings
from proxy.settings.types import (
    ADDRESS_PATTERN,
    DURATION_PATTERN,
    TIMEOUT_PATTERN,
    Duration,
    StrictModel,
    write_duration,
)
from proxy.settings.upstream import UpstreamSettings

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


_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LEGACY = "LegacySettings"


def config_schema() -> dict[str, Any]:
    """Return the schema: every key with its description and default, and no other key.

    It cannot tell contradictions, nor look at files: that is for `understudy check-config`.
    """
    schema = Settings.model_json_schema(by_alias=True)
    schema.pop("title")
    sections: dict[str, Any] = schema["$defs"]
    for section in (schema, *sections.values()):
        section.pop("title", None)
        section["properties"] = {
            name: _tidy(setting) for name, setting in section.get("properties", {}).items()
        }
    # The short form, which is read before any model sees it.
    short = {"type": "string", "enum": sections[_LEGACY]["properties"]["default"]["enum"]}
    legacy = sections["ImpersonationSettings"]["properties"]["legacy"]
    legacy["anyOf"] = [{"$ref": legacy.pop("$ref")}, short]
    return {"$schema": _DIALECT, "title": "Understudy's configuration", **schema}


def _tidy(setting: dict[str, Any]) -> dict[str, Any]:
    """Return a setting in the file's own words, without a title that repeats its name."""
    setting = {name: one for name, one in setting.items() if name != "title"}
    if "description" in setting:
        setting["description"] = " ".join(setting["description"].split())
    default, pattern = setting.get("default"), setting.get("pattern")
    if default is None or isinstance(default, dict):
        setting.pop("default", None)  # absent, or a section whose own keys have theirs
    elif pattern in (DURATION_PATTERN, TIMEOUT_PATTERN):
        setting["default"] = write_duration(default)
    elif pattern == ADDRESS_PATTERN:
        setting["default"] = ":".join(map(str, default))
    return setting
