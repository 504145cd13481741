"""`docs/migration.md` names only what there is."""

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from proxy.analysis.usage.collector import UsageLimits
from proxy.cli.main import _COMMANDS, parser_for
from proxy.settings.impersonation import ImpersonationSettings
from proxy.telemetry.metrics.impersonation import ShadowMetrics

TEXT = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "yaml"])
def test_its_settings_are_settings(block: str) -> None:
    ImpersonationSettings.model_validate(yaml.safe_load(block)["impersonation"])


@pytest.mark.parametrize(
    "command", [text for kind, text in BLOCKS if not kind and text.startswith("understudy ")]
)
def test_its_commands_can_be_given(command: str) -> None:
    words = command.partition(">")[0].split()[1:]

    assert callable(parser_for(words).parse_args(words).run)


def test_its_other_commands_exist() -> None:
    assert set(re.findall(r"understudy ([a-z-]+)", TEXT)) <= set(_COMMANDS)


def test_its_metric_is_served() -> None:
    registry = CollectorRegistry()
    metrics = ShadowMetrics(registry)
    outcomes = set(re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE))
    for outcome in outcomes:
        metrics.shadow_evaluated(outcome, "")

    name = re.findall(r"`(understudy_\w+)\{", TEXT)[0]
    assert outcomes == {"would-allow", "would-deny", "dropped", "error"}
    assert registry.get_sample_value(name, {"outcome": "dropped", "mode": ""}) == 1


def test_its_bounds_are_those_of_the_report() -> None:
    limits = UsageLimits()

    assert f"`--namespaces` ({limits.namespaces})" in TEXT
    assert f"`--most` ({limits.entries:,})".replace(",", " ") in TEXT
