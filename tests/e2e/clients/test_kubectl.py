"""kubectl, newest and oldest, in a namespace of its own: the same words at both doors."""

import json
from typing import Any

import pytest

from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.objects import apply
from tests.e2e.kep.cast import Cast
from tests.support.impersonation import Caller, Rights, may
from tests.support.proxy_and_native import BothDoors, Command, Said

# Some thirty runs of kubectl at each door; the first test may have to fetch the old one.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def editor(cast: Cast, rights: Rights, namespace: str) -> Caller:
    """May do everything with ConfigMaps and Deployments in the namespace, and nothing elsewhere."""
    caller = cast.user("editor", groups=["dev", "ops"])
    rights.grant(
        caller,
        may("list", resources=["events"]),
        may("*", resources=["configmaps"]),
        may("*", resources=["deployments", "deployments/scale", "replicasets"], group="apps"),
        namespace=namespace,
    )
    return caller


def config_map(name: str, namespace: str | None = None, **data: str) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(name: str, *, replicas: int = 1, image: str = "none") -> dict[str, Any]:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


class Story:
    """Commands in a namespace, in the order they are to be told."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.commands: list[Command] = []

    def then(self, *arguments: str, given: Manifest | None = None) -> "Story":
        """Add a command; a manifest comes on its standard input."""
        stdin = b"" if given is None else json.dumps(given).encode()
        self.commands.append(Command((*arguments, "-n", self._namespace), stdin))
        return self


@pytest.fixture
def story(namespace: str) -> Story:
    return Story(namespace)


def outputs(said: list[Said]) -> list[str]:
    """Return the last line each successful command printed."""
    assert [one.code for one in said] == [0] * len(said), said
    return [one.output.rstrip("\n").rpartition("\n")[2] for one in said]


def test_objects_are_created_changed_and_deleted(
    kubectl: BothDoors, editor: Caller, story: Story
) -> None:
    story.then("create", "configmap", "one", "--from-literal=color=red")
    story.then("create", "-f", "-", given=config_map("two", color="blue"))
    story.then("label", "configmap", "two", "tier=front")
    story.then("annotate", "configmap", "two", "example.com/note=seen")
    story.then("get", "configmaps", "-l", "tier=front")
    story.then("delete", "configmap", "one", "two")
    story.then("get", "configmaps")

    lines = outputs(kubectl.tell(editor, story.commands))

    assert lines[:2] == ["configmap/one created", "configmap/two created"]
    assert lines[4] == "two    1      AGE"
    assert lines[-1] == ""


def test_objects_read_the_same_in_every_form(
    kubectl: BothDoors, editor: Caller, namespace: str, admin: ApiClient, story: Story
) -> None:
    for name in ("one", "two"):
        apply(admin, config_map(name, namespace, color="red"))
    for form in ("wide", "yaml", "json", "name", "jsonpath={..color}"):
        story.then("get", "configmaps", "-o", form)
        story.then("get", "configmap", "two", "-o", form)

    said = kubectl.tell(editor, story.commands)

    assert all(outputs(said))
    for every, one in zip(said[::2], said[1::2], strict=True):
        assert len(every.output) > len(one.output)


def test_manifests_are_applied_and_patched(
    kubectl: BothDoors, editor: Caller, story: Story
) -> None:
    apply_it = ("apply", "-f", "-")
    story.then(*apply_it, given=deployment("web", replicas=1))
    story.then(*apply_it, given=deployment("web", replicas=1))
    story.then(*apply_it, given=deployment("web", replicas=2, image="other"))
    story.then(*apply_it, "--dry-run=server", given=deployment("web", replicas=3))
    story.then("apply", "--server-side", "-f", "-", given=config_map("side", color="red"))
    story.then("patch", "deployment", "web", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    story.then("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"paused":true}}')
    replace = '[{"op":"replace","path":"/spec/replicas","value":4}]'
    story.then("patch", "deployment", "web", "--type=json", "-p", replace)
    story.then("scale", "deployment", "web", "--replicas=5")
    story.then("get", "deployment", "web", "-o", "jsonpath={.spec}")
    story.then("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
    story.then("describe", "deployment", "web")
    story.then("delete", "deployment/web", "configmap/side")

    lines = outputs(kubectl.tell(editor, story.commands))

    assert lines[:5] == [
        "deployment.apps/web created",
        "deployment.apps/web unchanged",
        "deployment.apps/web configured",
        "deployment.apps/web configured (server dry run)",
        "configmap/side serverside-applied",
    ]
    assert lines[10] == "5"


def test_what_the_server_refuses_is_told_in_its_words(
    kubectl: BothDoors, editor: Caller, story: Story
) -> None:
    story.then("create", "configmap", "twice")
    story.then("create", "configmap", "twice")
    story.then("get", "configmap", "missing")
    story.then("delete", "configmap", "missing")
    story.then("apply", "-f", "-", given=config_map("Not_A_Name"))
    story.then("patch", "configmap", "twice", "--type=json", "-p", '[{"op":"no"}]')
    story.then("get", "nonsense")
    story.then("get", "secrets")
    story.then("create", "secret", "generic", "secret")
    story.then("delete", "secret", "secret")
    story.then("apply", "-f", "-", given=config_map("elsewhere") | {"kind": "Secret"})
    story.then("get", "--raw", "/api/v1/nodes")
    story.then("get", "--raw", "/no/such/path")
    story.then("delete", "configmap", "twice")

    said = kubectl.tell(editor, story.commands)

    assert [one.code for one in said] == [0, *[1] * 12, 0]
    assert 'configmaps "twice" already exists' in said[1].errors
    assert f'User "{editor.name}" cannot list resource "secrets"' in said[7].errors


def test_a_watch_shows_each_change_at_once(
    kubectl: BothDoors, editor: Caller, namespace: str, admin: ApiClient
) -> None:
    def change(color: str) -> None:
        apply(admin, config_map("watched", namespace, color=color))

    change("red")
    form = "jsonpath={.metadata.name} {.data.color}{'\\n'}"
    arguments = ("get", "configmaps", "-n", namespace, "-w", "-o", form)
    with kubectl.watching(editor, *arguments) as both:
        for color in ("red", "blue", "green"):
            change(color)

            assert [one.line() for one in both] == [f"watched {color}"] * 2


def test_a_watch_without_permission_ends_alike(
    kubectl: BothDoors, editor: Caller, namespace: str
) -> None:
    said = kubectl.say(editor, "get", "pods", "-n", namespace, "-w")

    assert said.code == 1
    assert f'User "{editor.name}" cannot list resource "pods"' in said.errors


def test_each_warning_of_the_server_reaches_the_person(
    kubectl: BothDoors, editor: Caller, story: Story
) -> None:
    manifest = deployment("doubled")
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "COLOR", "value": color} for color in ("red", "blue", "green")]
    story.then("create", "-f", "-", given=manifest)
    story.then("delete", "deployment", "doubled")

    said = kubectl.tell(editor, story.commands)

    place = "Warning: spec.template.spec.containers[0].env"
    lines = said[0].errors.splitlines()
    assert [line.partition(": hides")[0] for line in lines] == [f"{place}[1]", f"{place}[2]"]
    assert said[0].output == "deployment.apps/doubled created\n"


def test_an_aggregated_server_is_reached_as_the_same_user(
    kubectl: BothDoors, editor: Caller, rights: Rights, namespace: str
) -> None:
    console = f"/apis/{GROUP}/v1/namespaces/{namespace}/virtualmachines/one/console"
    rights.grant(
        editor,
        may("get", resources=["virtualmachines/console"], group=GROUP),
        namespace=namespace,
    )

    shown = kubectl.say(editor, "get", "--raw", console)
    refused = kubectl.say(editor, "get", "--raw", console.replace("console", "vnc"))

    assert json.loads(shown.output)["remote"]["x-remote-user"] == [editor.name]
    assert refused.code == 1
    assert "virtualmachines/vnc" in refused.errors


def test_what_one_may_do_and_what_there_is_reads_the_same(
    kubectl: BothDoors, editor: Caller, story: Story
) -> None:
    story.then("auth", "can-i", "create", "configmaps")
    story.then("auth", "can-i", "create", "secrets")
    story.then("auth", "can-i", "--list")
    story.then("api-resources", "-o", "wide")
    story.then("api-versions")
    story.then("explain", "deployment.spec.template", "--recursive")
    story.then("version", "-o", "json")
    story.then("get", "--raw", "/readyz")

    said = kubectl.tell(editor, story.commands)

    assert [one.output for one in said[:2]] == ["yes\n", "no\n"]
    assert [one.code for one in said] == [0, 1, *[0] * 6]
    assert "deployments" in said[3].output


def test_who_one_is_reads_the_same(new_kubectl: BothDoors, editor: Caller) -> None:
    said = new_kubectl.say(editor, "auth", "whoami", "-o", "json")

    user = json.loads(said.output)["status"]["userInfo"]
    assert user["username"] == editor.name
    assert user["groups"] == ["dev", "ops", "system:authenticated"]
