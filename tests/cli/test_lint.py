"""`understudy lint` on files, our own among them."""

import io
import json
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.tour.rbac import STORY_1, STORY_2
from tests.explain_parity.command import run

ROOT = Path(__file__).parents[2]
BAD = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "bad", "namespace": "shop"},
    "rules": [
        {
            "apiGroups": [""],
            "resources": ["pod/exec"],
            "verbs": ["impersonate-on:user-info:get", "impersonate-on:user-info:create"],
        }
    ],
}
NOTED = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "noted"},
    "rules": [{"apiGroups": ["acme.io"], "resources": ["zebras"], "verbs": ["*"]}],
}


@pytest.mark.parametrize("directory", ["manifests", "docs", "config.example.yaml"])
def test_nothing_is_wrong_with_what_we_ship(directory: str) -> None:
    said = run("lint", str(ROOT / directory))

    assert said.output == "no findings\n"
    assert said.code == 0


def test_the_rules_that_our_documents_show_are_right(tmp_path: Path) -> None:
    blocks = [
        block.partition("```")[0]
        for document in sorted((ROOT / "docs").rglob("*.md"))
        for block in document.read_text().split("```yaml\n")[1:]
    ]
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)

    said = run("lint", str(tmp_path), "--no-notes")

    assert blocks
    assert said.code == 0, said.output


def test_nothing_is_wrong_with_the_tour(tmp_path: Path) -> None:
    (tmp_path / "stories.yaml").write_text(f"{STORY_1}---\n{STORY_2}")

    assert run("lint", str(tmp_path)).output == "no findings\n"


def test_a_finding_says_where_why_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump_all([{"kind": "ConfigMap"}, BAD]))

    said = run("lint", str(file))

    assert said.code == 1
    assert said.output.splitlines() == [
        f"{file}:2: Role shop/bad $.rules[0].resources[0]: error unknown-resource: there is no "
        "pod/exec in the API group '', so the rule never matches",
        "    write pods/exec (apiGroups: [''])",
        "1 error, 0 warnings, 0 notes",
    ]


def test_programs_are_told_the_same(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(BAD))

    said = run("lint", str(tmp_path), "-o", "json")

    (finding,) = json.loads(said.output)
    assert finding["file"] == str(file)
    assert finding["document"] == 1
    assert (finding["kind"], finding["namespace"], finding["name"]) == ("Role", "shop", "bad")
    assert finding["path"] == "$.rules[0].resources[0]"


def test_notes_do_not_fail_and_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(NOTED)))
    (tmp_path / "noted.yaml").write_text(yaml.safe_dump(NOTED))

    noted = run("lint", "-")
    silent = run("lint", str(tmp_path), "--no-notes")

    assert noted.code == 0
    assert "note star-verb" in noted.output
    assert silent.output == "no findings\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param((), "specify either files or --cluster", id="nothing"),
        pytest.param(("--cluster", "x"), "specify either files or --cluster", id="both"),
        pytest.param(("missing.yaml",), "cannot read missing.yaml", id="missing"),
    ],
)
def test_a_mistake_of_the_user_is_one_line(arguments: tuple[str, ...], problem: str) -> None:
    said = run("lint", *arguments)

    assert said.code == 1
    assert problem in said.errors
    assert len(said.errors.splitlines()) == 1


def test_what_is_not_yaml_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")

    assert "a.yaml is not YAML: " in run("lint", str(tmp_path)).errors


def test_templates_of_a_chart_are_to_be_rendered_first(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.yaml").write_text("{{- if .Values.x }}")

    assert "helm template CHART | understudy lint -" in run("lint", str(tmp_path)).errors
