"""The chart, rendered by Helm itself, in a form in which it can be compared with kustomize's."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.helm_client import Helm

CHART = Path(__file__).parents[2] / "charts" / "understudy"
RELEASE = "understudy"

Object = dict[str, Any]


def render(
    helm: Helm, *options: str, namespace: str = "understudy"
) -> subprocess.CompletedProcess[bytes]:
    """Run `helm template`, whatever comes of it."""
    return helm.run("template", RELEASE, str(CHART), f"--namespace={namespace}", *options)


def rendered(helm: Helm, *options: str, namespace: str = "understudy") -> list[Object]:
    """Return the objects of a chart with these options."""
    done = render(helm, *options, namespace=namespace)
    assert done.returncode == 0, done.stderr.decode()
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


def in_order(objects: list[Object]) -> list[Object]:
    """Return objects in an order of ours, each file of the configuration read as what it says.

    Helm prints what is in the values, kustomize copies a file with its comments: of those only
    the meaning is the same.
    """
    return sorted((_read(one) for one in objects), key=_key)


def _key(one: Object) -> tuple[str, ...]:
    metadata = one["metadata"]
    return one["apiVersion"], one["kind"], metadata.get("namespace", ""), metadata["name"]


def _read(one: Object) -> Object:
    if one["kind"] != "ConfigMap":
        return one
    return one | {"data": {name: yaml.safe_load(text) for name, text in one["data"].items()}}
