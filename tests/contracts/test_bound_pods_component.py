"""The component for `impersonation.boundPodLookup` grants what it needs, and nothing else."""

from pathlib import Path

import yaml

COMPONENT = Path(__file__).parents[2] / "manifests" / "components" / "bound-pods"


def test_it_grants_a_look_at_pods_and_nothing_else() -> None:
    kustomization = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    objects = [
        one
        for file in kustomization["resources"]
        for one in yaml.safe_load_all((COMPONENT / file).read_text())
    ]

    assert [one["kind"] for one in objects] == ["ClusterRole", "ClusterRoleBinding"]
    assert objects[0]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    assert objects[1]["roleRef"]["name"] == objects[0]["metadata"]["name"]
