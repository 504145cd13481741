"""`config.example.yaml` and the settings say the same: every key, and nothing else."""

from pathlib import Path

import yaml
from pydantic import BaseModel

from proxy.settings.model import Settings
from proxy.settings.reader import load_settings
from proxy.settings.serving import ServingLimitSettings

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


def keys_of_model(model: type[BaseModel], prefix: str = "") -> set[str]:
    keys = set()
    for field in model.model_fields.values():
        path = f"{prefix}{field.alias}"
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            keys |= keys_of_model(nested, f"{path}.")
        else:
            keys.add(path)
    return keys


def keys_of_document(document: dict[str, object], prefix: str = "") -> set[str]:
    keys = set()
    for name, value in document.items():
        path = f"{prefix}{name}"
        # An empty one is a setting of its own, whose keys are the operator's.
        if isinstance(value, dict) and value:
            keys |= keys_of_document(value, f"{path}.")
        else:
            keys.add(path)
    return keys


def test_the_example_is_valid() -> None:
    assert load_settings(EXAMPLE).kind == "ProxyConfiguration"


def test_the_example_has_every_setting_and_no_other() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())

    assert keys_of_document(document) == keys_of_model(Settings)


def test_every_setting_states_its_consequence() -> None:
    def undocumented(model: type[BaseModel], prefix: str = "") -> list[str]:
        found = []
        for name, field in model.model_fields.items():
            if not field.description:
                found.append(prefix + name)
            nested = field.annotation
            if isinstance(nested, type) and issubclass(nested, BaseModel):
                found += undocumented(nested, f"{prefix}{name}.")
        return found

    assert undocumented(Settings) == []


def test_the_example_shows_the_defaults() -> None:
    shown = load_settings(EXAMPLE)

    for name in ("connect_timeout_seconds", "response_timeout_seconds"):
        default = type(shown.upstream).model_fields[name].default
        assert getattr(shown.upstream, name) == default
    assert shown.serving.limits == ServingLimitSettings()
    refresh = type(shown.serving).model_fields["certificate_refresh_seconds"].default
    assert shown.serving.certificate_refresh_seconds == refresh
