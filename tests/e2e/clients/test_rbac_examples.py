"""Each RBAC example, as it is: what it opens to a real kubectl, and what lies beside it.

All is said at both doors: the proxy before a cluster without the feature, and the native server.
"""

from functools import partial

import pytest
import yaml

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.objects import apply, create_node
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import DISCOVERY, Rights, Rule, may
from tests.support.proxy_and_native import BothDoors, Said
from tests.support.rbac_example import EXAMPLES, Robot, Use, example_objects, no, yes

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
PODS = "/api/v1/namespaces/{}/pods"
PODS_OF = "/api/v1/pods?fieldSelector=spec.nodeName%3D{}"
CONSOLE = f"/apis/{GROUP}/v1/namespaces/{{}}/virtualmachines/vm/console"


@pytest.mark.parametrize("name", NAMES)
def test_discovery_is_opened_by_the_same_paths_everywhere(name: str) -> None:
    visits = [
        rule["nonResourceURLs"]
        for one in example_objects(name)
        for rule in one.get("rules", [])
        if "nonResourceURLs" in rule
    ]

    assert visits == ([] if name == "console-deputy" else [list(DISCOVERY)])


def test_the_readme_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()

    assert [name for name in NAMES if f"[{name}.yaml]({name}.yaml)" not in text] == []


def test_named_user(kubectl: BothDoors, robot: Robot, rights: Rights, use: Use) -> None:
    watcher = robot("watcher")
    rights.grant("someUser", may("get", "list", "watch", "delete"))
    use("named-user")
    say = partial(kubectl.say, watcher)
    watch = "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1"

    yes(say("get", "pods", "-n", "default", "--as=someUser"))
    yes(say("get", "--raw", watch, "--as=someUser"))

    no(say("get", "pod", "web", "-n", "default", "--as=someUser"), "impersonate-on:user-info:get")
    no(say("get", "pods", "-A", "--as=someUser"), "at the cluster scope")
    no(say("delete", "pod", "web", "-n", "default", "--as=someUser"), "user-info:delete")
    no(
        say("get", "--raw", PODS.format("default"), "--as=otherUser"),
        'users.authentication.k8s.io "otherUser"',
    )
    assert say("get", "pods", "-n", "default", "--as=otherUser").code == 1
    no(say("get", "pods", "-n", "default"), f'User "{watcher.name}" cannot list')


def test_without_the_discovery_rule_kubectl_gets_nowhere(
    kubectl: BothDoors, robot: Robot, rights: Rights, admin: ApiClient, use: Use
) -> None:
    watcher = robot("watcher")
    rights.grant("someUser", may("list"))
    use("named-user")
    (role,) = [one for one in example_objects("named-user") if one["kind"] == "ClusterRole"]
    discovery: Rule = role["rules"].pop()
    apply(admin, role)
    rights.wait_for(watcher.name, discovery, allowed=False)

    said = kubectl.say(watcher, "get", "pods", "-n", "default", "--as=someUser")

    assert said.code == 1
    assert said.output == ""


@pytest.fixture
def node(cast: Cast) -> str:
    return cast.node()


def test_node_agent(
    new_kubectl: BothDoors, robot: Robot, cast: Cast, node: str, namespace: str, use: Use
) -> None:
    agent = robot("node-agent", node=node)
    mine = cast.pod(namespace, node=node)["metadata"]["name"]
    other = cast.node()
    use("node-agent")

    def say(*arguments: str, acting: str = node) -> Said:
        return new_kubectl.say(agent, *arguments, f"--as=system:node:{acting}")

    def list_pods(where: str) -> Said:
        return say("get", "pods", "-A", "-o", "name", f"--field-selector=spec.nodeName={where}")

    assert f"pod/{mine}" in yes(list_pods(node)).splitlines()
    yes(say("get", "pod", mine, "-n", namespace))

    no(list_pods(other), f'User "system:node:{node}" cannot list')
    no(say("get", "--raw", PODS_OF.format(other), acting=other), "arbitrary-node:list")
    no(say("get", "node", node), "impersonate-on:associated-node:get")
    no(say("delete", "pod", mine, "-n", namespace), "impersonate-on:associated-node:delete")


def test_node_agent_elsewhere_than_in_a_pod_is_nobody(
    new_kubectl: BothDoors, robot: Robot, node: str, use: Use
) -> None:
    use("node-agent")
    agent = robot("node-agent")

    said = new_kubectl.say(agent, "get", "--raw", PODS_OF.format(node), f"--as=system:node:{node}")

    no(said, "impersonate-on:arbitrary-node:list")


def test_console_deputy(
    new_kubectl: BothDoors,
    aggregated: AggregatedServer,
    robot: Robot,
    rights: Rights,
    namespace: str,
    use: Use,
) -> None:
    deputy, owner, guest = robot("deputy"), fresh_name("owner"), fresh_name("guest")
    consoles = may("get", resources=["virtualmachines/console"], group=GROUP)
    rights.grant(owner, consoles, may("list"))
    use("console-deputy")

    def open_console(where: str, *flags: str) -> Said:
        return new_kubectl.say(deputy, "get", "--raw", CONSOLE.format(where), *flags)

    seen = yaml.safe_load(yes(open_console("default", f"--as={owner}")))
    assert seen["remote"]["x-remote-user"] == [owner]

    no(open_console("default", f"--as={guest}"), f'User "{guest}" cannot get')
    no(open_console(namespace, f"--as={owner}"), "impersonate-on:user-info:get")
    no(open_console("default", f"--as={owner}", "--as-group=admins"), '"admins"')
    no(open_console("default", "--as=system:serviceaccount:default:app"), "serviceaccount:get")
    pods = new_kubectl.say(
        deputy, "get", "--raw", "/api/v1/namespaces/default/pods", f"--as={owner}"
    )
    no(pods, "impersonate-on:user-info:list")


def test_any_node(
    new_kubectl: BothDoors, robot: Robot, admin: ApiClient, cast: Cast, namespace: str, use: Use
) -> None:
    create_node(admin, "worker-1")
    theirs = cast.pod(namespace, node="worker-1")["metadata"]["name"]
    other = cast.node()
    inspector = robot("inspector")
    use("any-node")

    def say(*arguments: str, acting: str = "worker-1") -> Said:
        return new_kubectl.say(inspector, *arguments, f"--as=system:node:{acting}")

    listed = say("get", "pods", "-A", "-o", "name", "--field-selector=spec.nodeName=worker-1")
    assert f"pod/{theirs}" in yes(listed).splitlines()

    no(say("get", "--raw", PODS_OF.format(other), acting=other), f'"{other}"', "arbitrary-node")
    no(say("delete", "pod", theirs, "-n", namespace), "impersonate-on:arbitrary-node:delete")
