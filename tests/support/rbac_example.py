"""An example of `manifests/examples` in a cluster for a while, put there by kubectl as it is.

    with applied_example("node-agent", kubectl, rights):
        ...                             # every server knows each of its grants

Examples have fixed names, so they go again. They hold no namespace: whoever plays one makes those.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.impersonation import Caller, Rights
from tests.support.kubectl import Kubectl
from tests.support.proxy_and_native import Said

# Has an example until the test is over.
Use = Callable[[str], None]
# Makes one of the service accounts that the examples speak of.
Robot = Callable[..., Caller]

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def example_objects(name: str) -> list[dict[str, Any]]:
    """Return the objects of an example."""
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


@contextmanager
def applied_example(name: str, kubectl: Kubectl, rights: Rights) -> Iterator[None]:
    """Apply an example with an administrator's kubectl, and delete it again."""
    file = str(EXAMPLES / f"{name}.yaml")
    done = kubectl.run("apply", "-f", file)
    assert done.returncode == 0, done.stderr
    try:
        _wait_for_grants(example_objects(name), rights)
        yield
    finally:
        kubectl.run("delete", "-f", file)


def _wait_for_grants(objects: list[dict[str, Any]], rights: Rights) -> None:
    rules = {_key(one["kind"], one): one["rules"] for one in objects if "rules" in one}
    bindings = [one for one in objects if "roleRef" in one]
    # A role that is bound to nobody, or a binding of nothing, would be a mistake in the example.
    assert {_bound(one) for one in bindings} == set(rules)
    for binding in bindings:
        for subject in binding["subjects"]:
            user, groups = _asking(subject)
            namespace = binding["metadata"].get("namespace")
            rights.wait_for(user, *rules[_bound(binding)], groups=groups, namespace=namespace)


def _key(kind: str, one: dict[str, Any]) -> tuple[str, str, str | None]:
    return kind, one["metadata"]["name"], one["metadata"].get("namespace")


def _bound(binding: dict[str, Any]) -> tuple[str, str, str | None]:
    role = binding["roleRef"]
    return role["kind"], role["name"], binding["metadata"].get("namespace")


def _asking(subject: dict[str, str]) -> tuple[str, list[str]]:
    """Return a user, and its groups, to whom the subject's grants apply."""
    match subject["kind"]:
        case "ServiceAccount":
            return f"system:serviceaccount:{subject['namespace']}:{subject['name']}", []
        case "Group":
            return "anybody", [subject["name"]]
        case _:
            return subject["name"], []


def yes(said: Said) -> str:
    """It was done; return what was printed."""
    assert said.code == 0, said.errors
    return said.output


def no(said: Said, *words: str) -> None:
    """It was refused, in these words.

    Of an identity that is refused kubectl tells nothing, because discovery is refused first. So
    those are asked for by `--raw`, which discovers nothing.
    """
    assert said.code == 1, said
    for word in ("Error from server (Forbidden): ", *words):
        assert word in said.errors
