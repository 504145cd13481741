"""explain and can-i as people use them: one cluster, one proxy, the commands of the README."""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.analysis.cluster import Cluster, Object, open_cluster
from proxy.analysis.discovery import find_resource, known_resources
from proxy.core.requestinfo.request_info import ResourceKind
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import apply, create_namespace, create_pod, grant
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.explain_parity.command import Said, run
from tests.support.impersonation import Rights, as_user, may, may_be, may_do, may_impersonate, poll

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("understudy")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane, plain_api_server: ApiServer) -> Path:
    return plain_api_server.kubeconfig_for(control_plane.admin, name="advice")


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


def explain(kubeconfig: Path, *arguments: str) -> Said:
    return run("explain", f"--kubeconfig={kubeconfig}", *arguments)


def can_i(kubeconfig: Path, *arguments: str) -> Said:
    return run("can-i", f"--kubeconfig={kubeconfig}", *arguments)


# What the README promises


def commands_of_the_walk() -> list[tuple[str, str]]:
    """Return each command of the README's walk with what it prints there."""
    text = (ROOT / "README.md").read_text()
    walk = text.partition("## From a denial to a grant")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", walk, re.DOTALL)
    return [(command, output) for command, output in blocks]


def told(text: str) -> list[str]:
    """Return what is printed without what no two runs share."""
    lines = [re.sub(r":[0-9a-f]{8} ", ":DIGEST ", line) for line in text.splitlines()]
    lines = [re.sub(r":(CLUSTER|MARKET) ", ":DIGEST ", line) for line in lines]
    return [re.sub(r"\d+s$", "AGE", line.rstrip()) for line in lines]


@pytest.mark.timeout(120)
def test_the_walk_of_the_readme_goes_as_it_is_written(
    understudy: Understudy,
    control_plane: ControlPlane,
    admin: ApiClient,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    dana = control_plane.clients.issue_client("dana")
    create_namespace(admin, "market")
    create_pod(admin, "market", "till", node="nowhere")
    for manifest in rights_of_emil():
        apply(admin, manifest)
    (tmp_path / "dana.yaml").write_bytes(understudy.process.kubeconfig_for(dana).read_bytes())
    programs = f"{control_plane.binaries.kubectl.parent}:{Path(sys.executable).parent}"
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(tmp_path),
        "NO_COLOR": "1",
    }

    def walk(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    # Dana has used kubectl with this server before, as herself: it knows what is served there.
    walk("kubectl --kubeconfig dana.yaml api-resources")
    denied, why, grant, allowed = commands_of_the_walk()

    assert "Audit-Id" in walk(f"{denied[0]} -v=8").stderr
    for command, output in (denied, why, grant):
        done = walk(command)
        assert told(done.stdout + done.stderr) == told(output), done
    # The server learns of new rights in a moment; a person takes longer to type.
    poll(lambda: walk(allowed[0]).returncode == 0, "the grant does not work")
    assert told(walk(allowed[0]).stdout) == told(allowed[1])
    fresh = walk(f"{allowed[0]} --cache-dir=never-used")
    assert fresh.returncode == 0, fresh
    for beside in (
        "get services -n market",
        "get pods -n default",
        "get pods -A",
        "get pod till -n market",
    ):
        done = walk(f"kubectl --kubeconfig dana.yaml --as emil {beside}")
        assert "cannot impersonate-on:user-info:" in done.stderr, done
    done = walk("kubectl --kubeconfig dana.yaml --as carol get pods -n market")
    assert 'cannot impersonate:user-info resource "users"' in done.stderr, done


def rights_of_emil() -> list[dict[str, Any]]:
    group = "rbac.authorization.k8s.io"
    named = {"apiVersion": f"{group}/v1", "metadata": {"name": "keeper", "namespace": "market"}}
    binding = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "keeper"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "emil"}],
    }
    rules = [may("get", "list")]
    return [{**named, "kind": "Role", "rules": rules}, {**named, "kind": "RoleBinding", **binding}]


ODD_NAMES = (
    "1e3",
    "0o7",
    "y",
    "Null",
    'quo"te',
    "<b>&",
    "back\\slash",
    "é\u2028",
    "😀",
    "a: b",
    "-x",
)


@pytest.mark.timeout(60)
def test_kubectl_reads_every_name_in_a_grant_as_it_is_meant(
    kubeconfig: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    groups = [f"--as-group={name}" for name in ODD_NAMES]
    said = explain(
        kubeconfig, "--user=1e3", "--as=0x1f", *groups, "list", "pods", "--grant-only", "--anyway"
    )
    command = [
        str(control_plane.binaries.kubectl),
        f"--kubeconfig={kubeconfig}",
        "create",
        "-f",
        "-",
    ]

    done = subprocess.run(
        [*command, "--dry-run=server", "-o", "json", f"--cache-dir={tmp_path}"],
        input=said.output.encode(),
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode().replace("}\n{", "},{")
    created = json.loads(f"[{printed}]")
    (role,) = [one for one in created if one["kind"] == "ClusterRole"]
    names = {name for rule in role["rules"] for name in rule["resourceNames"]}
    assert names == {*ODD_NAMES, "0x1f"}
    assert {one["subjects"][0]["name"] for one in created if "subjects" in one} == {"1e3"}


# What is told


def test_a_denial_that_no_grant_can_mend_prints_no_yaml(kubeconfig: Path) -> None:
    said = explain(kubeconfig, "--user=bob", "--as=al", "--as-group=system:masters", "list", "pods")

    assert said.code == 0
    assert "no grant can allow this: impersonating the system:masters group" in said.output
    assert "apiVersion" not in said.output
    grant = explain(
        kubeconfig, "--user=bob", "--as=system:node:n", "--as-uid=1", "list", "po", "--grant-only"
    )
    assert (grant.code, grant.output) == (1, "")
    assert "no constrained mode applies" in grant.errors


def test_the_own_node_of_an_agent_is_explained_by_its_extra(kubeconfig: Path) -> None:
    node = "--extra=authentication.kubernetes.io/node-name=n1"
    agent = ("--user=system:serviceaccount:a:agent", "--as=system:node:n1", "get", "no", "n1")
    at_home = explain(kubeconfig, node, *agent, "-o=json").document()
    elsewhere = explain(kubeconfig, *agent, "-o=yaml")

    assert at_home["grantMode"] == "associated-node"
    assert "impersonate:associated-node" in json.dumps(at_home["grant"])
    assert yaml.safe_load(elsewhere.output)["grantMode"] == "arbitrary-node"
    assert "names no node" in elsewhere.output


def test_what_works_by_legacy_alone_gets_the_grant_to_leave_it(
    kubeconfig: Path, cast: Cast, rights: Rights
) -> None:
    caller, target = cast.user("old"), cast.user("target")
    rights.grant(caller, may_impersonate("users", target.name))
    rights.grant(target, may("list"))

    said = explain(kubeconfig, f"--user={caller.name}", f"--as={target.name}", "list", "pods", "-A")

    assert "pods: allowed" in said.output
    assert "to replace legacy impersonation" in said.output
    assert "impersonate-on:user-info:list" in said.output


def test_all_three_parts_are_one_answer(kubeconfig: Path, cast: Cast, rights: Rights) -> None:
    caller, target = cast.user("deputy"), cast.user("target")
    question = (f"--user={caller.name}", f"--as={target.name}", "list", "pods", "-A")

    def answers() -> tuple[int, dict[str, Any]]:
        said = can_i(kubeconfig, *question, "-o=json")
        return said.code, {part["part"]: part["allowed"] for part in said.document()["parts"]}

    assert answers() == (1, {"action": False, "identity": False, "own permission": False})
    rights.grant(caller, may_do("user-info", "list"))
    assert answers() == (1, {"action": True, "identity": False, "own permission": False})
    rights.grant(caller, may_be("user-info", "users", target.name))
    assert answers() == (1, {"action": True, "identity": True, "own permission": False})
    rights.grant(target, may("list"))
    assert answers() == (0, {"action": True, "identity": True, "own permission": True})
    said = can_i(kubeconfig, *question)
    assert said.output.startswith("yes\n  action: yes  impersonate-on:user-info:list pods\n")
    assert can_i(kubeconfig, *question, "-q").output == ""


def test_who_acts_as_nobody_else_is_asked_about_themselves(kubeconfig: Path, cast: Cast) -> None:
    caller = cast.user("somebody")

    assert can_i(kubeconfig, f"--user={caller.name}", "--raw=/version").code == 0
    said = can_i(kubeconfig, f"--user={caller.name}", "list", "secrets")
    assert (said.code, said.output) == (1, "no\n  own permission: no  list secrets in default\n")


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("po", ("", "v1", "pods", True)),
        ("Pod", ("", "v1", "pods", True)),
        ("no", ("", "v1", "nodes", False)),
        ("deploy", ("apps", "v1", "deployments", True)),
        ("deployments.apps", ("apps", "v1", "deployments", True)),
        ("deployments.v1.apps", ("apps", "v1", "deployments", True)),
        ("events", ("", "v1", "events", True)),
        ("events.events.k8s.io", ("events.k8s.io", "v1", "events", True)),
        ("deployments.v9.apps", None),
        ("pods.apps", None),
        ("unicorns", None),
    ],
)
def test_resources_go_by_the_names_that_kubectl_takes(
    kubeconfig: Path, named: str, kind: tuple[str, str, str, bool] | None
) -> None:
    class OldCluster(Cluster):
        """The same server, asked as those before 1.27 have to be."""

        async def get(self, path: str, *, accept: str = "") -> Object:
            return await super().get(path)

    document = yaml.safe_load(kubeconfig.read_text())

    async def find() -> list[ResourceKind | None]:
        async with open_cluster(document) as cluster:
            old = OldCluster(cluster._client)
            assert len(await known_resources(old)) == len(await known_resources(cluster))
            return [await find_resource(cluster, named), await find_resource(old, named)]

    group, version, resource, namespaced = kind or ("", "", "", False)
    found = ResourceKind(group, version, resource, is_namespaced=namespaced) if kind else None
    assert asyncio.run(find()) == [found, found]


def test_a_resource_that_nobody_serves_is_asked_for_as_it_is_named(kubeconfig: Path) -> None:
    arguments = ("--user=bob", "--as=al", "get", "horns.unicorn.io", "-o=json", "-n=x")
    refused = explain(kubeconfig, *arguments)
    said = explain(kubeconfig, *arguments, "--anyway")

    assert (refused.code, refused.output) == (1, "")
    assert "the API server has no resource horns.unicorn.io" in refused.errors

    assert "the API server has no resource horns.unicorn.io" in said.errors
    action = said.document()["action"]
    assert (action["group"], action["resource"], action["namespace"]) == (
        "unicorn.io",
        "horns",
        "x",
    )
    assert said.document()["notes"] == [
        "no request has the verb get without a name; did you mean list?",
        "the namespace x does not exist, so a Role in it cannot be applied",
    ]


@pytest.mark.parametrize(
    ("resource", "meant"),
    [("podz", "pods"), ("pods/exce", "pods/exec"), ("deployment.app", "deployments.apps")],
)
def test_mistyped_resource_is_an_error_with_a_suggestion(
    kubeconfig: Path, resource: str, meant: str
) -> None:
    said = explain(kubeconfig, "--user=bob", "--as=al", "list", resource, "--grant-only")

    assert (said.code, said.output) == (1, "")
    assert f"the API server has no resource {resource}; did you mean {meant}?" in said.errors


def test_no_grant_is_printed_for_a_target_without_permission_unless_asked_for(
    kubeconfig: Path,
) -> None:
    arguments = ("--user=bob", "--as=al", "list", "secrets", "--grant-only", "-n=nowhere")
    said, anyway = explain(kubeconfig, *arguments), explain(kubeconfig, *arguments, "--anyway")

    assert (said.code, said.output) == (1, "")
    assert "al itself may not list secrets in nowhere" in said.errors
    assert "warning: the namespace nowhere does not exist" in said.errors
    assert anyway.code == 0
    assert "impersonate-on:user-info:list" in anyway.output


@pytest.mark.timeout(90)
def test_one_grant_for_a_kubectl_command_allows_all_that_kubectl_sends(
    understudy: Understudy,
    control_plane: ControlPlane,
    admin: ApiClient,
    kubeconfig: Path,
    cast: Cast,
    tmp_path: Path,
) -> None:
    caller, target = cast.user("operator"), cast.user("target")
    grant(
        admin,
        target.name,
        rules=[{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get", "create"]}],
        to={"kind": "User", "name": target.name},
    )
    create_namespace(admin, "shop")
    create_pod(admin, "shop", "till", node="nowhere")
    command = ["--as", target.name, "-n", "shop", "exec", "till", "--", "ls", "-n", "x"]

    said = explain(kubeconfig, f"--user={caller.name}", "--grant-only", "--", "kubectl", *command)

    assert said.code == 0, said
    for manifest in yaml.safe_load_all(said.output):
        assert manifest["metadata"]["annotations"]["kube-understudy.io/caller"] == caller.name
        apply(admin, manifest)
    assert lint_findings(said.output, tmp_path) == ""

    def kubectl() -> str:
        return subprocess.run(
            [
                str(control_plane.binaries.kubectl),
                f"--kubeconfig={understudy.process.kubeconfig_for(caller.credential)}",
                f"--cache-dir={tmp_path}",
                *command,
            ],
            capture_output=True,
            text=True,
            check=False,
        ).stderr

    # The pod has no kubelet, so the API server's own error is the sign that nothing was denied.
    poll(lambda: "does not have a host assigned" in kubectl() or "nowhere" in kubectl(), kubectl())


def lint_findings(manifests: str, directory: Path) -> str:
    """Return the warnings of lint about streams."""
    file = directory / "grant.yaml"
    file.write_text(manifests)
    return "\n".join(
        line for line in run("lint", str(file)).output.splitlines() if "half-a" in line
    )


# The story of one request


@pytest.mark.parametrize("packed", [False, True])
def test_a_denied_answer_names_the_event_by_which_its_story_is_told(
    understudy: Understudy, kubeconfig: Path, cast: Cast, tmp_path: Path, *, packed: bool
) -> None:
    caller = cast.user("denied", groups=["dev"])
    headers = as_user("alice", groups=["ops"], extra=[("acme.io%2Fx", "1")])
    client = understudy.client(caller.credential)

    response = client.request("GET", "/api/v1/namespaces/default/pods?limit=5", headers=headers)
    audit_id = response.header("Audit-Id")
    assert (response.status, bool(audit_id)) == (403, True)
    assert audit_id is not None
    complete_event(understudy.audit_log, audit_id)
    log = understudy.audit_log
    if packed:
        log = tmp_path / "audit.log.gz"
        log.write_bytes(gzip.compress(understudy.audit_log.read_bytes()))
    said = explain(kubeconfig, f"--audit-id={audit_id}", f"--audit-log={log}", "-o=json")

    story = said.document()
    assert story["recorded"]["message"] == response.json()["message"] == story["answer"]["message"]
    assert story["recorded"]["annotations"]["first-failed-check"] == (
        "impersonate-on:user-info:list pods in default"
    )
    assert story["caller"]["username"] == caller.name
    assert "dev" in story["caller"]["groups"]
    assert story["wanted"] == {
        "username": "alice",
        "uid": "",
        "groups": ["ops"],
        "extra": {"acme.io/x": ["1"]},
    }
    assert story["grantMode"] == "user-info"


def test_the_story_of_an_allowed_request_names_its_mode(
    understudy: Understudy, kubeconfig: Path, cast: Cast, rights: Rights
) -> None:
    caller = cast.user("allowed")
    rights.grant(caller, may_do("user-info", "list"), may_be("user-info", "users", "emil-2"))
    client = understudy.client(caller.credential)

    response = client.request("GET", "/api/v1/pods", headers=as_user("emil-2"))
    audit_id = response.header("Audit-Id") or ""
    complete_event(understudy.audit_log, audit_id)
    said = explain(kubeconfig, f"--audit-id={audit_id}", f"--audit-log={understudy.audit_log}")

    assert "├─ constraint: impersonate:user-info" in said.output
    assert "user-info: allowed; emil-2 is neither" in said.output
    # Emil's double has no rights of his own, and that is told as the API server tells it.
    assert f"403 {response.json()['message']}" in said.output
    assert "emil-2 itself may not list pods" in said.output


def test_whatever_we_forbid_says_which_event_tells_of_it(
    understudy: Understudy, cast: Cast
) -> None:
    client = understudy.client(cast.user("forbidden").credential)
    asked = [
        as_user("alice"),
        as_user("alice", groups=["system:masters"]),
        as_user("alice", groups=[""]),
        as_user("system:node:n", uid="1"),
    ]

    with client.connect() as at:
        answers = [at.request("GET", "/version", headers=headers) for headers in asked]

    for response in answers:
        assert response.status == 403
        event = complete_event(understudy.audit_log, response.header("Audit-Id") or "")
        assert json.loads(event["annotations"]["kube-understudy.io/wanted"])["username"]


# What goes wrong


def test_whoever_may_not_ask_about_others_is_told_so(
    control_plane: ControlPlane, plain_api_server: ApiServer, cast: Cast
) -> None:
    poor = plain_api_server.kubeconfig_for(cast.user("poor").credential, name="poor")

    said = can_i(poor, "--user=bob", "--as=alice", "list", "pods")

    assert said.code == 1
    assert said.output == ""
    assert "you are not allowed to create SubjectAccessReviews" in said.errors


def test_a_credential_that_nobody_knows_is_told_so(
    control_plane: ControlPlane, plain_api_server: ApiServer, kubeconfig: Path, tmp_path: Path
) -> None:
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = {"token": "nonsense"}
    file = tmp_path / "stranger.yaml"
    file.write_text(yaml.safe_dump(document))

    said = can_i(file, "--user=bob", "--as=alice", "list", "pods")

    assert said.code == 1
    assert "did not accept your credential" in said.errors


def test_grants_are_listed_and_revoked(kubeconfig: Path, admin: ApiClient, cast: Cast) -> None:
    caller, target = cast.user("granted"), cast.user("target")
    users = (f"--user={caller.name}", f"--as={target.name}")
    cluster = f"--kubeconfig={kubeconfig}"
    said = explain(
        kubeconfig, *users, "list", "nodes", "--anyway", "--grant-only", f"--name={caller.name}"
    )
    for manifest in yaml.safe_load_all(said.output):
        apply(admin, manifest)

    listed = run("grants", cluster, f"--caller={caller.name}").output.splitlines()
    rehearsed = run("revoke", caller.name, "--dry-run", cluster)
    revoked = run("revoke", caller.name, cluster)

    assert listed[0].split() == ["NAME", "KIND", "NAMESPACE", "CALLER", "AS", "FOR", "MADE"]
    assert listed[1].split()[:7] == [
        *(caller.name, "RBAC", "(cluster)", caller.name, target.name, "list", "nodes")
    ]
    assert rehearsed.output.count("(dry run)") == 2
    assert revoked.output.splitlines() == [
        f"clusterrolebindings/{caller.name} deleted",
        f"clusterroles/{caller.name} deleted",
    ]
    assert run("grants", cluster, f"--caller={caller.name}", "-o=json").output == "[]\n"
    again = run("revoke", caller.name, cluster)
    assert (again.code, "no grant with the label" in again.errors) == (1, True)


@pytest.mark.timeout(60)
def test_first_denial_of_a_fresh_kubectl_names_the_permission_and_the_audit_event(
    understudy: Understudy, control_plane: ControlPlane, cast: Cast, tmp_path: Path
) -> None:
    caller = cast.user("fresh")
    done = subprocess.run(
        [
            str(control_plane.binaries.kubectl),
            f"--kubeconfig={understudy.process.kubeconfig_for(caller.credential, name='fresh')}",
            f"--cache-dir={tmp_path}",
            *("--as", "alice", "get", "pods"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert warnings, done.stderr
    found = re.search(r'^Warning: understudy: .*"; Audit-Id ([0-9a-f-]+)$', warnings[0])
    assert found is not None, done.stderr
    assert f'User "{caller.name}" cannot' in warnings[0] or "cannot impersonate" in warnings[0]
    assert complete_event(understudy.audit_log, found[1])["responseStatus"]["code"] == 403
