"""What the manifests grant is what the proxy is tested with, and what they say fits together."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.core.selfcheck.permissions import (
    FORWARDING_PERMISSIONS,
    ORIGINAL_USER_PERMISSIONS,
    REVIEW_PERMISSIONS,
    Permission,
    token_request_permission,
)
from proxy.sandbox.proxy_rbac import (
    COMPONENTS,
    FORWARDER_RULES,
    ORIGINAL_USER,
    REVIEWER_RULES,
    Rule,
)
from proxy.settings.loader import load_settings

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
NAMESPACE = "understudy"


def objects(directory: Path) -> list[dict[str, Any]]:
    """Return every object that a kustomization names."""
    listed = yaml.safe_load((directory / "kustomization.yaml").read_text())["resources"]
    return [one for file in listed for one in yaml.safe_load_all((directory / file).read_text())]


def roles(directory: Path) -> dict[str, list[Rule]]:
    return {
        one["metadata"]["name"]: one["rules"]
        for one in objects(directory)
        if one["kind"] in ("ClusterRole", "Role")
    }


def rights(rules: Iterable[Rule], namespace: str = "") -> set[Permission]:
    """Return each right that rules without a star grant."""
    return {
        Permission(verb, resource, group, subresource, namespace, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
        for resource, _, subresource in (one.partition("/") for one in rule["resources"])
    }


def test_the_roles_are_those_that_every_test_against_a_real_server_runs_with() -> None:
    granted = roles(MANIFESTS / "base")

    assert granted.pop("understudy-forwarder-token") == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": ["understudy-forwarder"],
            "verbs": ["create"],
        }
    ]
    assert granted == {
        "understudy-reviewer": list(REVIEWER_RULES),
        "understudy-forwarder": list(FORWARDER_RULES),
    }


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_grants_the_forwarder_what_tests_of_it_run_with(component: str) -> None:
    directory = MANIFESTS / "components" / component

    assert roles(directory) == {f"understudy-forwarder-{component}": list(COMPONENTS[component])}
    assert {one["name"] for one in subjects(directory)} == {"understudy-forwarder"}


def test_the_self_check_looks_for_what_the_manifests_grant() -> None:
    token = roles(MANIFESTS / "base")["understudy-forwarder-token"]

    assert rights(REVIEWER_RULES) == set(REVIEW_PERMISSIONS)
    assert rights(FORWARDER_RULES) == set(FORWARDING_PERMISSIONS)
    assert rights(COMPONENTS[ORIGINAL_USER]) == set(ORIGINAL_USER_PERMISSIONS)
    assert rights(token, NAMESPACE) == {token_request_permission(NAMESPACE, "understudy-forwarder")}


def subjects(directory: Path) -> list[dict[str, str]]:
    bindings = [one for one in objects(directory) if one["kind"].endswith("Binding")]
    return [subject for binding in bindings for subject in binding["subjects"]]


def test_nobody_but_our_two_accounts_is_granted_anything() -> None:
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in objects(MANIFESTS / "base")
        if one["kind"] == "ServiceAccount"
    }

    assert accounts == {(NAMESPACE, "understudy-reviewer"), (NAMESPACE, "understudy-forwarder")}
    for directory in (MANIFESTS / "base", *(MANIFESTS / "components").iterdir()):
        assert {(one["namespace"], one["name"]) for one in subjects(directory)} <= accounts


KUSTOMIZATIONS = sorted(file.parent for file in MANIFESTS.rglob("kustomization.yaml"))
OVERLAYS = sorted((MANIFESTS / "overlays").iterdir())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SELECTOR = {"app.kubernetes.io/name": "understudy"}
SELECTING = {"Deployment", "ServiceMonitor"}


def names(path: Path) -> str:
    return str(path.relative_to(MANIFESTS))


def one_of(kind: str, directory: Path = MANIFESTS / "base") -> dict[str, Any]:
    (found,) = [one for one in objects(directory) if one["kind"] == kind]
    return found


def container() -> dict[str, Any]:
    (found,) = one_of("Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("directory", KUSTOMIZATIONS, ids=names)
def test_every_file_is_used_by_its_kustomization(directory: Path) -> None:
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    used = {
        *kustomization.get("resources", ()),
        *(patch["path"] for patch in kustomization.get("patches", ())),
        *(
            file
            for generated in kustomization.get("configMapGenerator", ())
            for file in generated["files"]
        ),
        "kustomization.yaml",
    }

    assert {one.name for one in directory.iterdir()} == {one for one in used if "/" not in one}


CONFIGS = sorted(MANIFESTS.rglob("config.yaml"))


@pytest.mark.parametrize("file", CONFIGS, ids=names)
def test_the_config_files_are_good(file: Path) -> None:
    load_settings(file)


def test_the_central_config_is_the_bases_with_the_clusters_certificates() -> None:
    base, central = (yaml.safe_load(file.read_text()) for file in CONFIGS)

    assert central.pop("authentication") == {"clientCertificate": {"fromCluster": True}}
    assert central == base


def test_the_pod_outlasts_the_drain() -> None:
    """There is no preStop hook: the proxy itself serves on until load balancers have learned."""
    shutdown = load_settings(MANIFESTS / "base" / "config.yaml").serving.shutdown
    specification = one_of("Deployment")["spec"]["template"]["spec"]
    readiness = container()["readinessProbe"]

    assert specification["terminationGracePeriodSeconds"] > shutdown.grace_period_seconds
    assert shutdown.delay_seconds > readiness["periodSeconds"] * readiness["failureThreshold"]
    assert "lifecycle" not in container()


def test_ports_are_those_that_the_config_file_listens_on() -> None:
    settings = load_settings(MANIFESTS / "base" / "config.yaml")
    assert settings.admin.address is not None
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    (service_port,) = one_of("Service")["spec"]["ports"]
    (scraped,) = objects(MANIFESTS / "components" / "service-monitor")[0]["spec"]["ports"]

    assert ports == {"https": settings.serving.address[1], "admin": settings.admin.address[1]}
    assert (service_port["port"], service_port["targetPort"]) == (443, "https")
    assert (scraped["port"], scraped["targetPort"]) == (ports["admin"], "admin")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] == "admin"


def test_files_of_the_config_are_mounted() -> None:
    settings = load_settings(MANIFESTS / "base" / "config.yaml")
    (volume, _) = one_of("Deployment")["spec"]["template"]["spec"]["volumes"]
    (mount, _) = container()["volumeMounts"]
    mounted = {
        f"{mount['mountPath']}/{item['path']}"
        for source in volume["projected"]["sources"]
        for item in source.get("secret", {}).get("items", ())
    }

    assert container()["args"] == ["serve", f"--config={mount['mountPath']}/config.yaml"]
    assert mounted == {str(settings.serving.certificate_file), str(settings.serving.key_file)}


def test_everything_selects_the_pods_of_the_deployment() -> None:
    deployment = one_of("Deployment")["spec"]

    assert deployment["template"]["metadata"]["labels"] == SELECTOR
    assert deployment["selector"] == {"matchLabels": SELECTOR}
    for spread in deployment["template"]["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"] == {"matchLabels": SELECTOR}
    for directory in (MANIFESTS / "base", MANIFESTS / "components" / "service-monitor"):
        for one in objects(directory):
            match one["kind"]:
                case "Service":
                    assert one["spec"]["selector"] == SELECTOR
                case "NetworkPolicy":
                    assert one["spec"]["podSelector"] == {"matchLabels": SELECTOR}
                case "PodDisruptionBudget":
                    assert one["spec"]["selector"] == {"matchLabels": SELECTOR}
                case "HorizontalPodAutoscaler":
                    assert one["spec"]["scaleTargetRef"]["name"] == "understudy"
                    assert one["spec"]["minReplicas"] >= 2
                case _:
                    assert "selector" not in one.get("spec", {}) or one["kind"] in SELECTING


def test_only_the_port_that_authenticates_is_open_to_all() -> None:
    ingress = one_of("NetworkPolicy")["spec"]["ingress"]
    scraping = one_of("NetworkPolicy", MANIFESTS / "components" / "service-monitor")

    assert ingress == [{"ports": [{"protocol": "TCP", "port": "https"}]}]
    assert all("from" in rule for rule in scraping["spec"]["ingress"])


def images(value: object) -> Iterable[str]:
    """Yield every image that is named anywhere in an object."""
    if isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value["image"]
        for one in value.values():
            yield from images(one)
    elif isinstance(value, list):
        for one in value:
            yield from images(one)


def test_images_of_ours_are_of_this_version() -> None:
    files = [file for directory in KUSTOMIZATIONS for file in directory.glob("*.yaml")]
    documents = [one for file in files for one in yaml.safe_load_all(file.read_text())]
    ours = {image for image in images(documents) if image.startswith("understudy:")}

    assert ours == {f"understudy:{VERSION}"}


SIDECARS = [MANIFESTS / "overlays" / name / "sidecar.yaml" for name in ("node-agent", "sidecar")]


@pytest.mark.parametrize("hop", SIDECARS, ids=names)
def test_no_tenant_pod_holds_a_privileged_credential(hop: Path) -> None:
    """The hop has no token at all; the application has its own, by a projected volume."""
    directory = hop.parent
    patch = yaml.safe_load(hop.read_text())["spec"]["template"]["spec"]
    (beside,), (application,) = patch["initContainers"], patch["containers"]
    volumes = {one["name"]: one for one in patch["volumes"]}
    text = "".join(file.read_text() for file in directory.glob("*.yaml"))

    assert patch["automountServiceAccountToken"] is False
    assert {one["name"] for one in beside["volumeMounts"]} == {"shared", "kept", "understudy-ca"}
    assert {one["name"] for one in application["volumeMounts"]} == {"shared", "token"}
    assert [source.keys() for source in volumes["token"]["projected"]["sources"]] == [
        {"serviceAccountToken"}
    ]
    assert not any("secret" in one for one in volumes.values())
    assert "understudy-reviewer" not in text
    assert "understudy-forwarder" not in text
    # The unrestricted verb is granted to nobody.
    for role in roles(directory).values():
        assert all("impersonate" not in rule["verbs"] for rule in role)


def test_both_hops_are_the_same_but_for_whom_they_act_as() -> None:
    agent, application = (
        yaml.safe_load(file.read_text())["spec"]["template"]["spec"] for file in SIDECARS
    )
    for specification in (agent, application):
        (hop,) = specification["initContainers"]
        hop["args"] = [word for word in hop["args"] if not word.startswith("--as=")]
        hop["env"] = [one for one in hop["env"] if one["name"] != "NODE_NAME"]
        del specification["containers"][0]["name"]

    assert agent == application


def test_what_the_installation_shows_is_tested_or_needs_nodes() -> None:
    """An engine for images, controllers and kubelets are what the tests do not have."""
    document = (ROOT / "docs" / "installation.md").read_text()
    untested = re.findall(r"(?<!-->\n)```sh\n(.*?)```", document, re.DOTALL)
    needs_nodes = re.compile(
        r"docker |kubectl --namespace understudy (rollout|port-forward) |PROXY="
    )

    assert len(re.findall(r"<!-- tested: ", document)) == 10
    assert [
        line for block in untested for line in block.splitlines() if not needs_nodes.match(line)
    ] == []


_ACCOUNT_NAME = re.compile(rf"system:serviceaccount:{NAMESPACE}:([a-z0-9.-]+[a-z0-9])")
# Names an account that must not exist.
_WITHOUT_ACCOUNT = {"proxy/core/rbac/who_can.py"}


def named_accounts(text: str) -> set[str]:
    return set(_ACCOUNT_NAME.findall(text))


def test_every_account_that_a_document_or_a_command_names_is_in_the_manifests() -> None:
    created = {
        one["metadata"]["name"]
        for one in objects(MANIFESTS / "base")
        if one["kind"] == "ServiceAccount"
    }
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("*.yaml"),
        *(ROOT / "docs").glob("*.md"),
        *MANIFESTS.rglob("*.yaml"),
        *(file for file in (ROOT / "charts").rglob("*") if file.suffix in {".md", ".yaml", ".tpl"}),
        *(ROOT / "proxy").rglob("*.py"),
    ]
    names = {str(file.relative_to(ROOT)): named_accounts(file.read_text()) for file in files}
    unknown = {file: accounts - created for file, accounts in names.items() if accounts - created}

    assert set(unknown) == _WITHOUT_ACCOUNT
    assert "understudy-forwarder" in names["docs/audit-join.md"]


def test_account_of_another_name_is_found() -> None:
    assert named_accounts("--proxy-user system:serviceaccount:understudy:proxy.") == {"proxy"}
