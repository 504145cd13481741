"""The config file as JSON Schema, for editors and whoever writes config files by program."""

from typing import Any

from proxy.settings.model import Settings
from proxy.settings.values import (
    ADDRESS_PATTERN,
    DURATION_PATTERN,
    TIMEOUT_PATTERN,
    write_duration,
)

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
