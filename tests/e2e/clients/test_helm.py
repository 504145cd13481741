"""Helm installs, upgrades and uninstalls a chart through the proxy, as a user and as another."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.helm_client import Helm, helm_program
from tests.support.impersonation import DISCOVERY, Caller, Rights, Rule, may, may_be, may_visit
from tests.support.proxy_and_native import Door, Said, masked

# Building helm is not in it, that happens in a fixture; eighteen runs of it are.
pytestmark = pytest.mark.timeout(300)

VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
TIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}")

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: tiny\nversion: 0.1.0\n",
    "values.yaml": "color: red\nreplicas: 1\n",
    "templates/config.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: tiny}
data: {color: {{ .Values.color }}}
""",
    "templates/service.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: tiny}
spec: {selector: {app: tiny}, ports: [{port: 80}]}
""",
    "templates/deployment.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: tiny}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: tiny}}
  template:
    metadata: {labels: {app: tiny}}
    spec: {containers: [{name: main, image: none}]}
""",
}
OBJECTS = (
    "api/v1/namespaces/{}/configmaps/tiny",
    "api/v1/namespaces/{}/services/tiny",
    "apis/apps/v1/namespaces/{}/deployments/tiny",
)


@pytest.fixture(scope="module")
def program() -> Path:
    return helm_program()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("chart") / "tiny"
    for name, content in CHART.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return str(directory)


def chart_rules(*verbs: str) -> tuple[Rule, Rule]:
    """Return what the chart needs, the Secrets that helm keeps releases in included."""
    core = ["configmaps", "services", "secrets"]
    return may(*verbs, resources=core), may(*verbs, resources=["deployments"], group="apps")


@pytest.fixture
def owner(cast: Cast, rights: Rights, namespace: str) -> Caller:
    """May do with the chart's objects whatever it likes, in its namespace."""
    caller = cast.user("owner")
    rights.grant(caller, *chart_rules(*VERBS), namespace=namespace)
    return caller


@pytest.fixture
def visitor(cast: Cast, rights: Rights, owner: Caller) -> Caller:
    """May look around as the owner and as a member of dev, but not do a thing."""
    caller = cast.user("visitor")
    rights.grant(
        caller,
        may_be("user-info", "users", owner.name),
        may_be("user-info", "groups", "dev"),
        may_visit("user-info", *DISCOVERY),
    )
    return caller


@pytest.fixture
def deputy(rights: Rights, visitor: Caller) -> Caller:
    """May do with the chart's objects what the owner may, as the owner; and nothing as itself."""
    rights.grant(visitor, *chart_rules(*(f"impersonate-on:user-info:{verb}" for verb in VERBS)))
    return visitor


@dataclass(frozen=True, slots=True)
class HelmAtADoor:
    """Helm for one caller, with the flags it always gives."""

    door: Door
    helm: Helm
    flags: Sequence[str]

    def say(self, *arguments: str) -> Said:
        """Run helm and return what it said, without its times."""
        done: subprocess.CompletedProcess[bytes] = self.helm.run(*arguments, *self.flags)
        output, errors = (
            TIME.sub("TIME", masked(stream.decode(), self.door))
            for stream in (done.stdout, done.stderr)
        )
        return Said(done.returncode, output, errors)


@dataclass(frozen=True, slots=True)
class Doors:
    """Ours and the native one."""

    program: Path
    both: tuple[Door, Door]

    def helms(self, caller: Caller, *flags: str) -> list[HelmAtADoor]:
        """Return helm at each door for a caller."""
        name = fresh_name("helm")
        return [
            HelmAtADoor(door, Helm(self.program, kubeconfig), flags)
            for door in self.both
            for kubeconfig in [door.kubeconfig_for(caller.credential, name=name)]
        ]

    def say(self, caller: Caller, *arguments: str) -> Said:
        """Run one command at both doors, and return what both said."""
        ours, native = (helm.say(*arguments) for helm in self.helms(caller))
        assert ours == native
        return ours


@pytest.fixture
def doors(program: Path, understudy: ProxyProcess, native_api_server: ApiServer) -> Doors:
    return Doors(program, (understudy, native_api_server))


def objects_of(admin: ApiClient, namespace: str) -> list[Any]:
    """Return the chart's objects that there are."""
    answers = [admin.request("GET", f"/{path.format(namespace)}") for path in OBJECTS]
    return [response.json() for response in answers if response.status == 200]


@pytest.fixture(params=["as itself", "as another"])
def helms(
    request: pytest.FixtureRequest, doors: Doors, namespace: str, owner: Caller
) -> list[HelmAtADoor]:
    """Helm at our door and at the native one, for the owner or for the deputy as the owner."""
    place = f"--namespace={namespace}"
    if request.param == "as itself":
        return doors.helms(owner, place)
    acting = (f"--kube-as-user={owner.name}", "--kube-as-group=dev")
    return doors.helms(request.getfixturevalue("deputy"), place, *acting)


@pytest.mark.parametrize("applying", ["--server-side=true", "--server-side=false"])
def test_a_chart_is_installed_upgraded_and_uninstalled_as_at_the_native_door(
    helms: list[HelmAtADoor], chart: str, admin: ApiClient, namespace: str, applying: str
) -> None:
    told = []
    for helm in helms:
        installed = helm.say("install", "release", chart, applying)
        after_install = objects_of(admin, namespace)
        upgraded = helm.say("upgrade", "release", chart, "--set", "color=blue,replicas=3", applying)
        after_upgrade = objects_of(admin, namespace)
        kept = [helm.say("get", "manifest", "release"), helm.say("history", "release")]
        uninstalled = helm.say("uninstall", "release")

        assert [one["kind"] for one in after_install] == ["ConfigMap", "Service", "Deployment"]
        assert after_install[0]["data"] == {"color": "red"}
        assert after_upgrade[0]["data"] == {"color": "blue"}
        assert after_upgrade[2]["spec"]["replicas"] == 3
        assert objects_of(admin, namespace) == []
        told.append([installed, upgraded, *kept, uninstalled])

    ours, native = told
    assert ours == native
    assert [one.code for one in ours] == [0] * 5, ours


def test_a_chart_that_may_not_be_installed_leaves_nothing(
    doors: Doors, chart: str, cast: Cast, admin: ApiClient, namespace: str
) -> None:
    stranger = cast.user("stranger")

    said = doors.say(stranger, "install", "release", chart, f"--namespace={namespace}")

    assert said.code == 1
    assert f'User "{stranger.name}" cannot' in said.errors
    assert objects_of(admin, namespace) == []


def test_acting_as_the_owner_needs_leave_for_each_action(
    doors: Doors, chart: str, admin: ApiClient, namespace: str, owner: Caller, visitor: Caller
) -> None:
    install = ("install", "release", chart, f"--namespace={namespace}")

    said = doors.say(visitor, *install, f"--kube-as-user={owner.name}")

    assert said.code == 1
    assert "cannot impersonate-on:user-info:" in said.errors
    assert objects_of(admin, namespace) == []


def test_a_group_beyond_the_deputys_leave_is_refused(
    doors: Doors, chart: str, admin: ApiClient, namespace: str, owner: Caller, deputy: Caller
) -> None:
    acting = (f"--kube-as-user={owner.name}", "--kube-as-group=ops")

    said = doors.say(deputy, "install", "release", chart, f"--namespace={namespace}", *acting)

    # Helm asks for the version first and says no more than that the cluster is unreachable.
    assert said.code == 1
    assert "INSTALLATION FAILED" in said.errors
    assert objects_of(admin, namespace) == []
