"""The config file: all settings with their defaults, one module per section.

Settings are frozen and strict: unknown keys are rejected, and no value is coerced. In YAML, keys
are camelCase and durations have a unit (`10s`). In Python, names are whole words with their unit.
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
    format_duration,
)
from proxy.settings.upstream import UpstreamSettings


class Settings(StrictModel):
    """The config file."""

    api_version: Literal["kube-understudy.io/v1alpha1"]
    """The format of this file."""

    kind: Literal["ProxyConfiguration"]
    """The kind of this file."""

    config_refresh_seconds: Duration = Field(default=10.0, alias="configRefresh")
    """Interval at which this file and the audit policy are checked for changes. New contents that
    are unchanged for one second apply from the next request on. If any part is invalid, nothing
    changes. 0s: only SIGHUP reloads."""

    serving: ServingSettings
    """The data port, which clients connect to."""

    authentication: AuthenticationSettings = AuthenticationSettings()
    """Authentication of callers."""

    upstream: UpstreamSettings = UpstreamSettings()
    """The API server, and the proxy's identities there."""

    impersonation: ImpersonationSettings = ImpersonationSettings()
    """Authorization of impersonation."""

    audit: AuditSettings = AuditSettings()
    """Audit events."""

    admin: AdminSettings = AdminSettings()
    """The admin port, for probes and scrapers."""

    log: LogSettings = LogSettings()
    """The proxy's own log, on standard error."""

    tracing: TracingSettings = TracingSettings()
    """OpenTelemetry traces."""

    @model_validator(mode="after")
    def _check_ports(self) -> "Settings":
        # Both listeners set SO_REUSEPORT for a successor process, so the kernel would accept one
        # port for both. It would then send some probes to the data port, and some clients to the
        # admin port.
        if self.admin.address is not None and _overlap(self.serving.address, self.admin.address):
            raise ValueError("serving.address and admin.address must not be the same port")
        return self


def _overlap(first: tuple[str, int], second: tuple[str, int]) -> bool:
    hosts = {first[0], second[0]}
    is_same_host = len(hosts) == 1 or not hosts.isdisjoint(("0.0.0.0", "::"))  # noqa: S104 - compared
    return first[1] == second[1] != 0 and is_same_host


_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LEGACY = "LegacySettings"


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of the config file: each key with its description and default.

    No other key is valid. The schema cannot express contradictions between keys or check files;
    `understudy check-config` does both.
    """
    schema = Settings.model_json_schema(by_alias=True)
    schema.pop("title")
    sections: dict[str, Any] = schema["$defs"]
    for section in (schema, *sections.values()):
        section.pop("title", None)
        section["properties"] = {
            name: _tidy(setting) for name, setting in section.get("properties", {}).items()
        }
    # The short form, which is expanded before the model is validated.
    short = {"type": "string", "enum": sections[_LEGACY]["properties"]["default"]["enum"]}
    legacy = sections["ImpersonationSettings"]["properties"]["legacy"]
    legacy["anyOf"] = [{"$ref": legacy.pop("$ref")}, short]
    return {"$schema": _SCHEMA_DIALECT, "title": "Understudy's configuration", **schema}


def _tidy(setting: dict[str, Any]) -> dict[str, Any]:
    """Return a property with its default as written in YAML, and without the generated title."""
    setting = {name: value for name, value in setting.items() if name != "title"}
    if "description" in setting:
        setting["description"] = " ".join(setting["description"].split())
    default, pattern = setting.get("default"), setting.get("pattern")
    if default is None or isinstance(default, dict):
        setting.pop("default", None)  # absent, or a section whose keys have their own defaults
    elif pattern in (DURATION_PATTERN, TIMEOUT_PATTERN):
        setting["default"] = format_duration(default)
    elif pattern == ADDRESS_PATTERN:
        setting["default"] = ":".join(map(str, default))
    return setting
