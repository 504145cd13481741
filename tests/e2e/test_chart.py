"""The chart is the manifests: what Helm makes of it is what kustomize makes of them."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.programs.binaries import Binaries
from proxy.settings.loader import load_settings
from tests.support.chart import CHART, RELEASE, in_order, render, rendered
from tests.support.empty_cluster import (
    MANIFESTS,
    NAMESPACE,
    EmptyCluster,
    built,
    empty_cluster,
    write_overlay,
)
from tests.support.helm_client import Helm, helm_program
from tests.support.kubectl import Kubectl

# Building Helm is not in it, that happens in a fixture.
pytestmark = pytest.mark.timeout(300)

# The value that stands for each component.
COMPONENTS = {
    "all-extras": "allExtras",
    "bound-pods": "boundPods",
    "cert-manager": "certManager.enabled",
    "cluster-cas": "clusterCas",
    "original-user": "originalUser",
    "prometheus-rule": "prometheusRule.enabled",
    "service-monitor": "serviceMonitor.enabled",
}
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """A Helm that knows no cluster: what it renders depends on none."""
    return Helm(helm_program(), tmp_path_factory.mktemp("helm") / "kubeconfig")


@pytest.fixture(scope="module")
def kubectl(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(binaries.kubectl, tmp_path_factory.mktemp("kubectl") / "kubeconfig")


def test_as_it_is_it_is_the_base(helm: Helm, kubectl: Kubectl) -> None:
    assert in_order(rendered(helm)) == in_order(built(kubectl, MANIFESTS / "base"))


def test_with_the_values_of_a_central_door_it_is_that_overlay(helm: Helm, kubectl: Kubectl) -> None:
    objects = rendered(helm, f"--values={CHART / 'values-central.yaml'}")

    assert in_order(objects) == in_order(built(kubectl, MANIFESTS / "overlays" / "central"))


def test_there_is_a_value_for_every_component() -> None:
    assert set(COMPONENTS) == {one.name for one in (MANIFESTS / "components").iterdir()}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_value_is_its_component(
    component: str, helm: Helm, kubectl: Kubectl, tmp_path: Path
) -> None:
    write_overlay(tmp_path, components=[component])

    objects = rendered(helm, f"--set={COMPONENTS[component]}=true")

    assert in_order(objects) == in_order(built(kubectl, tmp_path))


def test_all_values_are_all_components(helm: Helm, kubectl: Kubectl, tmp_path: Path) -> None:
    write_overlay(tmp_path, components=sorted(COMPONENTS))

    objects = rendered(helm, *(f"--set={value}=true" for value in COMPONENTS.values()))

    assert in_order(objects) == in_order(built(kubectl, tmp_path))


def test_a_package_holds_all_that_the_directory_does(helm: Helm, tmp_path: Path) -> None:
    """One of its files is a link to the manifests, which do not travel with it."""
    values = [f"--set={value}=true" for value in COMPONENTS.values()]

    packaged = helm.run("package", str(CHART), f"--destination={tmp_path}")
    (package,) = tmp_path.glob("*.tgz")
    done = helm.run("template", RELEASE, str(package), f"--namespace={NAMESPACE}", *values)

    assert packaged.returncode == 0
    assert done.stdout == render(helm, *values).stdout


def test_the_namespace_is_that_of_the_release(helm: Helm) -> None:
    values = [f"--set={value}=true" for value in COMPONENTS.values()]
    here, there = (
        json.dumps(rendered(helm, *values, namespace=one)) for one in (NAMESPACE, "elsewhere")
    )
    # Where the base's namespace stands, as opposed to our own name, which is the same word.
    named = re.compile(
        rf'("namespaces?": \[?"|understudy\.|"Namespace", "metadata": {{"name": "){NAMESPACE}\b'
    )

    assert named.search(here)
    assert not named.search(there)
    assert named.sub(r"\1elsewhere", here) == there


@pytest.mark.parametrize("values", [(), ("--values", str(CHART / "values-central.yaml"))])
def test_the_proxy_understands_its_configuration(
    values: tuple[str, ...], helm: Helm, tmp_path: Path
) -> None:
    """So does whoever reads it: it says which kind it is."""
    (config,) = [one for one in rendered(helm, *values) if one["kind"] == "ConfigMap"]
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"])

    settings = load_settings(file)

    assert settings.authentication.client_certificate.from_cluster == bool(values)


def test_what_pods_are_made_of_can_be_chosen(helm: Helm) -> None:
    digest = f"sha256:{'0' * 64}"
    chosen = {
        "image.repository": "registry.example.com/understudy",
        "image.pullPolicy": "Always",
        "image.pullSecrets[0]": "pull",
        "priorityClassName": "high",
        "nodeSelector.pool": "system",
        "tolerations[0].operator": "Exists",
        "terminationGracePeriodSeconds": "90",
        "service.annotations.example\\.com/scheme": "internal",
        "resources.requests.cpu": "1",
    }

    objects = rendered(helm, *(f"--set={key}={value}" for key, value in chosen.items()))
    by_digest = rendered(helm, f"--set=image.digest={digest}")

    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/understudy:0.1.0"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {
        "requests": {"cpu": 1, "memory": "256Mi"},
        "limits": {"memory": "1Gi"},
    }
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["priorityClassName"] == "high"
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["terminationGracePeriodSeconds"] == 90
    (service,) = [one for one in objects if one["kind"] == "Service"]
    assert service["metadata"]["annotations"] == {"example.com/scheme": "internal"}
    assert f"understudy@{digest}" in json.dumps(by_digest)


def test_prometheus_may_choose_by_labels(helm: Helm) -> None:
    kinds = {"serviceMonitor": "ServiceMonitor", "prometheusRule": "PrometheusRule"}
    options = [
        f"--set={value}.{setting}"
        for value in kinds
        for setting in ("enabled=true", "labels.release=mine")
    ]

    objects = rendered(helm, *options)

    labelled = [one["kind"] for one in objects if "release" in one["metadata"].get("labels", {})]
    assert sorted(labelled) == sorted(kinds.values())


def test_an_issuer_of_yours_takes_the_place_of_the_ca(helm: Helm) -> None:
    issuer = {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "company"}
    names = "certManager.dnsNames[0]=proxy.example.com"

    objects = rendered(
        helm,
        "--set=certManager.enabled=true",
        f"--set-json=certManager.issuerRef={json.dumps(issuer)}",
        f"--set={names}",
    )

    (certificate,) = [one for one in objects if one["apiVersion"] == "cert-manager.io/v1"]
    assert certificate["spec"]["issuerRef"] == issuer
    assert certificate["spec"]["dnsNames"][-1] == "proxy.example.com"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("replica=3", "replica"),
        ("image.tagg=1", "tagg"),
        ("replicas.min=two", "replicas/min"),
        ("replicas.min=0", "replicas/min"),
        ("replicas.min=9", "replicas.max is less than replicas.min"),
        ("allExtras=yes please", "allExtras"),
        ("config.kind=Other", "config/kind"),
        ("config.serving.address=0.0.0.0:443", "config/serving/address"),
        ("config.authentication.clientCertificate.fromCluster=true", "needs clusterCas"),
        ("config.authentication.frontProxy.fromCluster=true", "needs clusterCas"),
        ("config.impersonation.boundPodLookup=true", "needs boundPods"),
        ("config.upstream.originalUserExtra=true", "needs originalUser"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(option: str, words: str, helm: Helm) -> None:
    done = render(helm, f"--set={option}")

    assert done.returncode == 1
    assert words in done.stderr.decode()


def test_the_linter_finds_nothing(helm: Helm) -> None:
    done = helm.run("lint", "--strict", "--quiet", str(CHART))

    assert (done.returncode, done.stdout) == (0, b""), done.stdout


def test_its_version_is_ours() -> None:
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == chart["version"] == project["version"]


def test_every_value_has_a_type_and_is_told_about() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()

    assert set(schema["properties"]) - {"global"} == set(VALUES)
    for name, value in VALUES.items():
        assert f"`{name}" in readme
        if "additionalProperties" in (typed := schema["properties"][name]):
            assert set(typed.get("properties", ())) == set(value)


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[EmptyCluster]:
    with empty_cluster(binaries) as running:
        yield running


def test_the_configuration_can_be_had_for_check_config(helm: Helm, cluster: EmptyCluster) -> None:
    """As the chart's README says."""
    manifest = render(helm, "--show-only=templates/config.yaml").stdout

    text = cluster.run(
        *("create", "--dry-run=client", "-f", "-", "-o", "jsonpath={.data.config\\.yaml}"),
        stdin=manifest,
    )

    assert yaml.safe_load(text)["kind"] == "ProxyConfiguration"


def test_a_cluster_takes_it_changes_it_and_is_rid_of_it(helm: Helm, cluster: EmptyCluster) -> None:
    at = Helm(helm.program, cluster.kubectl.kubeconfig)
    where = (RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--take-ownership")

    def run(*arguments: str) -> None:
        done = at.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()

    run("install", *where, "--create-namespace")
    namespace = cluster.admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for one in built(cluster.kubectl, MANIFESTS / "base"):
        found = ("get", one["kind"], one["metadata"]["name"], f"--namespace={NAMESPACE}")
        cluster.run(*found)

    run("upgrade", *where, f"--values={CHART / 'values-central.yaml'}")
    scaler = cluster.run("get", "hpa", "understudy", "-n", NAMESPACE, "-o=jsonpath={.spec}")
    assert json.loads(scaler)["minReplicas"] == 3

    run("uninstall", RELEASE, f"--namespace={NAMESPACE}")
    left = cluster.run("get", "clusterrole,clusterrolebinding,flowschema", "-o=name")
    assert "understudy" not in left
