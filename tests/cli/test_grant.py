"""`understudy grant` without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.explain_parity.command import run

INTENT: dict[str, Any] = {
    "name": "desk",
    "mode": "user-info",
    "impersonators": [{"user": "jane"}],
    "targets": [{"user": "alice"}],
    "actions": [{"verbs": ["list"], "resources": ["pods"]}],
    "namespaces": ["shop"],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "intent.yaml"


def test_rbac_is_printed_to_be_applied(file: Path) -> None:
    file.write_text(yaml.safe_dump(INTENT))

    said = run("grant", str(file))
    as_json = run("grant", str(file), "-o", "json")

    documents = list(yaml.safe_load_all(said.output))
    assert said.code == 0
    assert said.errors == ""
    assert [one["kind"] for one in documents] == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    assert json.loads(as_json.output) == {"apiVersion": "v1", "kind": "List", "items": documents}


def test_what_is_allowed_beyond_the_intents_is_warned_of(file: Path) -> None:
    other = {
        **INTENT,
        "name": "other",
        "targets": [{"user": "bob"}],
        "actions": [{"verbs": ["delete"], "resources": ["pods"]}],
    }
    file.write_text(yaml.safe_dump_all([INTENT, other]))

    said = run("grant", str(file))

    assert said.code == 0
    assert "warning: user jane may impersonate alice (desk) also to delete" in said.errors


def test_every_problem_of_every_document_is_told(file: Path) -> None:
    bad = {**INTENT, "mode": "x"}
    file.write_text(yaml.safe_dump_all([INTENT, bad, {**INTENT, "name": ""}, INTENT]))

    said = run("grant", str(file))

    assert said.code == 1
    assert said.output == ""
    assert [line.partition(" must")[0] for line in said.errors.splitlines()] == [
        "understudy: document 2: $.mode:",
        "understudy: document 3: $.name:",
        "understudy: two intents have the name desk",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "contains no intent", id="empty"),
        pytest.param(b"a: [", "is not YAML", id="not YAML"),
        pytest.param(b"\xff\xfe\xff", "is not YAML", id="not a text"),
        pytest.param(None, "cannot read", id="missing"),
    ],
)
def test_a_file_that_is_none_is_one_line(file: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        file.write_bytes(content)

    said = run("grant", str(file))

    assert said.code == 1
    assert problem in said.errors
    assert len(said.errors.splitlines()) == 1
