"""`config.example.yaml`, the settings, the code and the schema say the same, key by key."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from proxy.cli import serve
from proxy.concurrency.task_set import TaskSet
from proxy.runtime.config_watcher import ConfigWatcher, ReloadRequest, load_config
from proxy.runtime.proxy import run_proxy
from proxy.settings.loader import load_settings
from proxy.settings.model import Settings, config_schema
from proxy.settings.types import DURATION_PATTERN, TIMEOUT_PATTERN, StrictModel, format_duration
from proxy.telemetry.metrics.process import ConfigMetrics
from tests.scenarios.conftest import settings_document
from tests.support.certificates import new_certificates
from tests.support.json_schema import Schema
from tests.support.restored_logging import restored_logging
from tests.support.scripted_api_server import scripted_api_server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"
SCHEMA = ROOT / "docs" / "config.schema.json"
# What the reader itself insists on; nobody else needs to know.
READ_BY_THE_READER = {"apiVersion", "kind"}
# In the example there is a file, an address, or a name, where the default is none.
EXAMPLES_ONLY = {
    "serving.certificateFile",
    "serving.keyFile",
    "authentication.clientCertificate.caFile",
    "authentication.frontProxy.caFile",
    "authentication.frontProxy.allowedNames",
    "upstream.kubeconfig",
    "upstream.reviewer.kubeconfig",
    "audit.log.path",
    "audit.webhook.kubeconfig",
    "audit.policyFile",
    "admin.address",
}


def settings_of(
    model: type[BaseModel], prefix: str = ""
) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Yield the path of every setting, with its name here and the model that has it."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias}"
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from settings_of(nested, f"{path}.")
        else:
            yield path, name, model


def values_of(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        path = f"{prefix}{name}"
        # An empty one is a setting of its own, whose keys are the operator's.
        if isinstance(value, dict) and value:
            yield from values_of(value, f"{path}.")
        else:
            yield path, value


SETTINGS = sorted(settings_of(Settings))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return loaded


def test_the_example_is_valid() -> None:
    assert load_settings(EXAMPLE).kind == "ProxyConfiguration"


def test_the_example_has_every_setting_and_no_other(document: dict[str, Any]) -> None:
    assert sorted(path for path, _ in values_of(document)) == [path for path, _, _ in SETTINGS]


@pytest.mark.parametrize("path", sorted({path for path, _, _ in SETTINGS} - EXAMPLES_ONLY))
def test_the_example_shows_the_default(document: dict[str, Any], path: str) -> None:
    schema = config_schema()
    setting: dict[str, Any] = {"$ref": "#/$defs/Settings"}
    place, *parts = schema, *path.split(".")
    for part in parts:
        setting = place["properties"][part]
        options = [setting, *setting.get("anyOf", [])]
        names = [one["$ref"].rpartition("/")[2] for one in options if "$ref" in one]
        place = schema["$defs"][names[0]] if names else {}
    default = setting.get("const", setting.get("default"))

    shown = dict(values_of(document))[path]

    assert shown == (default if default is not None or shown != {} else {})


@pytest.mark.parametrize("path", [path for path, _, _ in SETTINGS])
def test_a_setting_is_written_as_in_kubernetes_and_states_its_consequence(path: str) -> None:
    name, model = next((name, model) for one, name, model in SETTINGS if one == path)
    field = model.model_fields[name]
    key = path.rpartition(".")[2]

    assert re.fullmatch(r"[a-z]+([A-Z][a-z]+|[A-Z]{2,}(?![a-z]))*", key), "not camelCase"
    assert field.description
    assert field.description.endswith(".")
    is_duration = any("duration" in repr(one).lower() for one in field.metadata)
    assert is_duration == name.endswith("_seconds") or name.endswith("per_second")
    assert "seconds" not in key.lower() or key.startswith("per")


def test_durations_are_text_with_a_unit(document: dict[str, Any]) -> None:
    shown = dict(values_of(document))
    durations = [path for path, name, _ in SETTINGS if name.endswith("_seconds")]

    assert len(durations) > 10
    for path in durations:
        assert re.search(DURATION_PATTERN, str(shown[path])), path


def test_the_example_speaks_of_the_keys_of_lists_as_well() -> None:
    """They are not in its document, which has empty lists there."""
    text, schema = EXAMPLE.read_text(), config_schema()
    in_lists = re.findall(r'"items": \{"\$ref": "#/\$defs/(\w+)"', json.dumps(schema))

    keys = {key for name in in_lists for key in schema["$defs"][name]["properties"]}

    assert {"users", "serviceAccounts", "action"} <= keys
    assert [key for key in keys if not re.search(rf"\b{key}\b", text)] == []


def test_every_key_of_the_example_has_its_comment() -> None:
    """A comment stands right above a key, or above its neighbour that it speaks of as well."""
    lines = EXAMPLE.read_text().splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"( *)([A-Za-z]+):", line)
        if match is None or match[2] in READ_BY_THE_READER:
            continue
        above = number - 1
        while above >= 0 and re.match(rf"{match[1]}[A-Za-z]+: \S", lines[above]):
            above -= 1
        is_section = line.endswith(":")
        assert lines[above].lstrip().startswith("#") or is_section, f"{number + 1}: {line}"


@contextmanager
def seen_reading() -> Iterator[set[tuple[type, str]]]:
    """Yield which fields of which models are read meanwhile."""
    seen: set[tuple[type, str]] = set()
    read = StrictModel.__getattribute__

    def watched(self: StrictModel, name: str) -> Any:
        if not name.startswith("_"):
            seen.add((type(self), name))
        return read(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StrictModel, "__getattribute__", watched)
        yield seen


async def test_every_setting_is_read_by_a_running_proxy(tmp_path: Path) -> None:
    certificates = new_certificates()
    async with scripted_api_server(certificates) as api:
        document = settings_document(api, certificates, tmp_path)
        fronts = new_certificates()
        (tmp_path / "fronts.crt").write_bytes(fronts.clients.cert_pem.bytes())
        document["authentication"]["frontProxy"] = {"caFile": str(tmp_path / "fronts.crt")}
        document["impersonation"] = {"boundPodLookup": True, "shadow": {"enabled": True}}
        serving = document["serving"]
        files = {name: serving[name] for name in ("certificateFile", "keyFile")}
        document["admin"] = {"address": "127.0.0.1:0", **files}
        document["tracing"] = {"endpoint": "http://127.0.0.1:1/v1/traces"}
        document["audit"] = {
            "log": {"path": str(tmp_path / "audit.log")},
            "webhook": {"kubeconfig": document["upstream"]["kubeconfig"]},
        }
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(document))
        with seen_reading() as seen, restored_logging():
            config = await asyncio.to_thread(load_config, file)
            serve._configure_logs(config.settings, None)
            async with run_proxy(config.settings) as proxy:

                async def apply(_: ReloadRequest) -> None:
                    pass

                tasks = TaskSet(lambda _: None)
                counter = ConfigMetrics(proxy.registry)
                watcher = ConfigWatcher(
                    file, config, apply, counter=counter, now=lambda: 0.0, tasks=tasks
                )
                assert watcher._delay().seconds == config.settings.config_refresh_seconds

    unread = {path for path, name, model in SETTINGS if (model, name) not in seen}
    assert unread == READ_BY_THE_READER


def test_the_schema_in_the_docs_is_the_one_that_is_printed() -> None:
    assert json.loads(SCHEMA.read_text()) == config_schema(), (
        "run: understudy check-config --schema > docs/config.schema.json"
    )


def test_the_schema_takes_the_example_and_whatever_the_code_takes(
    document: dict[str, Any],
) -> None:
    schema = Schema(config_schema())

    assert schema.problems(document) == []
    for legacy in ("warn", {"rules": [{"users": ["a"], "action": "deny"}]}):
        changed = {**document, "impersonation": {**document["impersonation"], "legacy": legacy}}
        assert schema.problems(changed) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"colour": "red"}, ".colour: unknown"),
        ({"kind": "Proxy"}, ".kind: const"),
        ({"serving": {"keyFile": "a"}}, ".serving.certificateFile: required"),
        ({"log": {"level": "loud"}}, ".log.level: enum"),
        ({"log": {"Level": "info"}}, ".log.Level: unknown"),
        ({"configRefresh": 10}, ".configRefresh: type"),
        ({"configRefresh": "10"}, ".configRefresh: pattern"),
        ({"upstream": {"connectTimeout": "0s"}}, ".upstream.connectTimeout: pattern"),
        ({"upstream": {"extras": {"a": "hide"}}}, ".upstream.extras.a: enum"),
        ({"upstream": {"endpoints": ["http://a"]}}, ".upstream.endpoints.0: pattern"),
        ({"audit": {"log": {"compress": "yes"}}}, ".audit.log.compress: type"),
        ({"audit": {"log": {"bufferSize": 0}}}, ".audit.log.bufferSize: minimum"),
        ({"impersonation": {"legacy": "perhaps"}}, ".impersonation.legacy: anyOf"),
    ],
)
def test_the_schema_refuses_what_the_code_refuses(
    document: dict[str, Any], changes: dict[str, Any], problem: str
) -> None:
    changed = document | changes

    assert problem in Schema(config_schema()).problems(changed)
    with pytest.raises(ValueError, match="validation error"):
        Settings.model_validate(changed)


@pytest.mark.parametrize("written", ["10s", "1m30s", "500ms", "1h2m3s4ms", "1.5s", "0s", "2m"])
def test_the_schema_takes_durations(written: str) -> None:
    assert re.search(DURATION_PATTERN, written)
    assert bool(re.search(TIMEOUT_PATTERN, written)) == (written != "0s")


@pytest.mark.parametrize("written", ["10", "", "s", "-1s", "1s2m", "1 s", "10S", "1d", "1e3s"])
def test_the_schema_refuses_what_is_no_duration(written: str) -> None:
    assert not re.search(DURATION_PATTERN, written)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, "0s"), (10.0, "10s"), (90.0, "90s"), (120.0, "2m"), (3600.0, "1h"), (0.25, "250ms")],
)
def test_durations_are_written_as_they_are_read(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written
