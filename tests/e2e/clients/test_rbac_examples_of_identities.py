"""The RBAC examples of service accounts, of whole identities, of exec and of handing on."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import apply, create_namespace, create_service_account
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Rights, may
from tests.support.kubectl import Kubectl
from tests.support.kubelet import running_kubelet
from tests.support.proxy_and_native import BothDoors, Said
from tests.support.rbac_example import Robot, Use, no, yes

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

PODS = "/api/v1/namespaces/{}/pods"


def deployment(name: str, namespace: str) -> dict[str, object]:
    labels = {"app": name}
    containers = [{"name": "main", "image": "none"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


@pytest.fixture
def app(admin: ApiClient, rights: Rights) -> str:
    """The user name of an application that may do everything with its Deployment."""
    create_namespace(admin, "production")
    for account in ("app", "other"):
        create_service_account(admin, "production", account)
    app = "system:serviceaccount:production:app"
    rights.grant(app, may("*", resources=["deployments"], group="apps"), namespace="production")
    apply(admin, deployment("app", "production"))
    return app


def test_service_account(
    new_kubectl: BothDoors,
    control_plane: ControlPlane,
    understudy: ProxyProcess,
    cast: Cast,
    app: str,
    use: Use,
) -> None:
    engineer = cast.user("engineer", groups=["release-engineers"])
    use("service-account")

    def say(*arguments: str, acting: str = app) -> Said:
        return new_kubectl.say(engineer, *arguments, "-n", "production", f"--as={acting}")

    yes(say("get", "deployments"))
    # At our door only: a second restart within the same second is an error of kubectl's.
    ours = Kubectl(
        control_plane.binaries.kubectl, understudy.kubeconfig_for(engineer.credential, name="ours")
    )
    restart = ("rollout", "restart", "deployment", "app", "-n", "production", f"--as={app}")
    assert b"restarted" in ours.run(*restart).stdout
    yes(say("label", "deployment", "app", "seen=yes", "--dry-run=server"))

    no(say("delete", "deployment", "app"), "impersonate-on:serviceaccount:delete")
    raw = ("get", "--raw", "/apis/apps/v1/namespaces/production/deployments")
    no(say(*raw, acting="system:serviceaccount:production:other"), '"other"')
    no(say(*raw, acting="system:serviceaccount:default:app"), '"app"', '"default"')
    no(say(*raw, "--as-group=release-engineers"), "cannot impersonate resource")


def test_groups_and_extras(
    new_kubectl: BothDoors, robot: Robot, rights: Rights, admin: ApiClient, use: Use
) -> None:
    create_namespace(admin, "shop")
    gateway, user = robot("gateway"), fresh_name("customer")
    rights.grant(user, may("get", "list", resources=["configmaps"]))
    use("groups-and-extras")

    whole = (
        f"--as={user}",
        "--as-group=customers",
        "--as-uid=42",
        "--as-user-extra=example.com/tenant=blue",
    )
    raw = ("get", "--raw", "/api/v1/namespaces/shop/configmaps")
    say = partial(new_kubectl.say, gateway)

    yes(say("get", "configmaps", "-n", "shop", *whole))

    no(say("get", "configmap", "one", "-n", "shop", *whole), "impersonate-on:user-info:get")
    no(say(*raw, *whole, "--as-group=admins"), '"admins"')
    no(say(*raw, *whole, "--as-group=system:masters"), "system:masters")
    no(say(*raw, *whole, "--as-user-extra=example.com/role=admin"), "userextras/example.com/role")
    no(say(*raw, *whole, "--as-user-extra=example.com/tenant=green"), '"green"')


@contextmanager
def bob(rights: Rights, caller: Caller) -> Iterator[None]:
    """Let bob do all that the caller is not to do as bob, for a while."""
    everything = may("*", resources=["pods", "pods/exec", "pods/log"])
    target = Caller("bob", caller.credential, {**caller.subject, "name": "bob"})
    name = rights.grant(target, everything)
    yield
    rights.withdraw(name, target, everything)


def test_exec(
    streaming: BothDoors,
    control_plane: ControlPlane,
    native_api_server: ApiServer,
    cast: Cast,
    rights: Rights,
    use: Use,
) -> None:
    support, node = cast.named("support"), fresh_name("shop-node")
    kubelet = running_kubelet(control_plane, native_api_server, node=node, namespace="shop")
    with bob(rights, support), kubelet as running:
        web = running.create_pod()
        use("exec")
        say = partial(streaming.say, support)
        acting = ("-n", "shop", "--as=bob")

        assert web in yes(say("get", "pods", "-o", "name", *acting))
        assert yes(say("exec", web, *acting, "--", "echo", "hello")) == "hello\n"

        no(say("logs", web, *acting), "impersonate-on:user-info:get", "pods/log")
        no(say("delete", "pod", web, *acting), "impersonate-on:user-info:delete")
        no(
            say("get", "--raw", PODS.format("shop"), "--as=alice"),
            'users.authentication.k8s.io "alice"',
        )


def test_the_rules_of_the_test_plan_are_not_even_taken(administrator: Kubectl) -> None:
    """As the KEP has them: no API group, and a subresource of no resource."""
    verbs = ["impersonate-on:user-info:list", "impersonate-on:user-info:get"]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "impersonate-pod-action", "namespace": "default"},
        "rules": [{"resources": ["pods", "pod/exec"], "verbs": verbs}],
    }

    done = administrator.run("apply", "-f", "-", stdin=yaml.safe_dump(role).encode())

    assert done.returncode == 1
    assert b"must supply at least one api group" in done.stderr


def test_delegation(new_kubectl: BothDoors, cast: Cast, admin: ApiClient, use: Use) -> None:
    lead = cast.named("lead")
    use("delegation")

    def create(*arguments: str) -> Said:
        # Nothing is kept, so that the second door finds what the first one found.
        return new_kubectl.say(lead, "create", *arguments, "--dry-run=server", "-o", "name")

    def role(verb: str) -> Said:
        return create("clusterrole", "held", f"--verb={verb}", "--resource=pods")

    def binding(name: str) -> Said:
        return create("clusterrolebinding", "intern", f"--clusterrole={name}", "--user=intern")

    yes(role("impersonate-on:user-info:list"))
    yes(binding("example-delegation-held"))

    assert "attempting to grant RBAC permissions not currently held" in _refused(
        role("impersonate-on:user-info:update")
    )
    assert "attempting to grant RBAC permissions" in _refused(
        role("impersonate-on:arbitrary-node:list")
    )
    assert "attempting to grant RBAC permissions" in _refused(binding("cluster-admin"))


def _refused(said: Said) -> str:
    assert said.code == 1, said
    return said.errors
