"""`understudy check-config` tells everything that is wrong at once, and never by a traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.cli.main import main
from proxy.sandbox.identities import CertificateAuthority, write_kubeconfig

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"

Told = tuple[int, list[str], str]
Check = Callable[..., Told]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Run the command: exit code, problems without the file's name, and what is printed."""

    def run(*arguments: object) -> Told:
        code = main(["check-config", *map(str, arguments)])
        printed = capsys.readouterr()
        lines = printed.err.splitlines()
        assert all(line.startswith("understudy: ") for line in lines), printed.err
        return code, [line.rpartition(".yaml: ")[2] for line in lines], printed.out

    return run


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """A config with every kind of file, all of them good."""
    clients, servers, fronts = (
        CertificateAuthority("clients"),
        CertificateAuthority("servers"),
        CertificateAuthority("fronts"),
    )
    servers.issue_server("127.0.0.1").write(tmp_path, "serving")
    (tmp_path / "clients.crt").write_bytes(clients.certificate_pem)
    (tmp_path / "fronts.crt").write_bytes(fronts.certificate_pem)
    for name in ("upstream", "reviewer", "webhook"):
        write_kubeconfig(
            tmp_path / f"{name}.kubeconfig",
            url="https://127.0.0.1:1",
            ca_pem=servers.certificate_pem,
            credential=clients.issue_client(name),
        )
    (tmp_path / "policy").write_text(POLICY)
    return {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        "serving": {"certificateFile": "serving.crt", "keyFile": "serving.key"},
        "authentication": {
            "clientCertificate": {"caFile": "clients.crt"},
            "frontProxy": {"caFile": "fronts.crt"},
        },
        "upstream": {
            "kubeconfig": "upstream.kubeconfig",
            "reviewer": {"kubeconfig": "reviewer.kubeconfig"},
        },
        "audit": {
            "log": {"path": "audit.log"},
            "webhook": {"kubeconfig": "webhook.kubeconfig"},
            "policyFile": "policy",
        },
    }


def write(directory: Path, document: dict[str, Any], name: str = "config.yaml") -> Path:
    file = directory / name
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_good_config_with_good_files_is_no_problem(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    file = write(tmp_path, document)

    assert check(file) == (0, [], f"{file}: no problem found\n")
    assert not (tmp_path / "audit.log").exists(), "looking must change nothing"


def test_the_example_is_good_where_its_files_are(check: Check) -> None:
    assert check("--no-files", EXAMPLE)[0] == 0


def test_unknown_keys_wrong_types_and_contradictions_are_told_together(
    check: Check, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        """\
apiVersion: v1
colour: red
serving:
  address: here
  certificateFile: 7
  shutdown: {delay: 20s, patience: long}
authentication: {clientCertificate: {caFile: a, fromCluster: true}}
upstream: {connectTimeout: 5, forwarder: {sameAsReviewer: true, serviceAccount: "a:b"}}
impersonation: {legacy: {rules: [{action: perhaps}]}}
"""
    )

    assert check(file) == (
        1,
        [
            "apiVersion: Input should be 'kube-understudy.io/v1alpha1'",
            "kind: is required",
            "serving.address: must be ADDRESS:PORT, such as 0.0.0.0:8443 or [::]:8443",
            "serving.certificateFile: must be the path of a file",
            "serving.keyFile: is required",
            "serving.shutdown.patience: unknown key",
            "authentication.clientCertificate: caFile and fromCluster are mutually exclusive",
            "upstream.connectTimeout: must be a duration such as 10s, 1m30s or 500ms",
            "impersonation.legacy.rules.0.action: Input should be 'allow', 'warn' or 'deny'",
            "colour: unknown key",
            "serving.shutdown: delay and watchWindow together must not exceed gracePeriod",
            "upstream: forwarder.sameAsReviewer contradicts forwarder.serviceAccount and "
            "reviewer.kubeconfig",
        ],
        "",
    )


def test_a_contradiction_with_a_value_that_is_wrong_itself_is_not_told(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    document["serving"]["shutdown"] = {"delay": "20s", "gracePeriod": "long"}

    code, problems, _ = check(write(tmp_path, document))

    assert code == 1
    assert [problem.partition(":")[0] for problem in problems] == ["serving.shutdown.gracePeriod"]


@pytest.mark.parametrize(
    ("serving", "admin", "problems"),
    [
        ("0.0.0.0:8443", "127.0.0.1:8443", 1),
        ("127.0.0.1:8443", "[::]:8443", 1),
        ("127.0.0.1:8443", "127.0.0.1:8443", 1),
        ("127.0.0.1:8443", "127.0.0.2:8443", 0),
        ("127.0.0.1:8443", "127.0.0.1:8444", 0),
        ("127.0.0.1:0", "127.0.0.1:0", 0),
    ],
)
def test_one_port_for_both_is_a_contradiction(
    check: Check, document: dict[str, Any], tmp_path: Path, serving: str, admin: str, problems: int
) -> None:
    document["serving"]["address"] = serving
    document["admin"] = {"address": admin}

    assert len(check(write(tmp_path, document))[1]) == problems


def test_every_file_that_is_missing_is_told_by_its_setting(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    document["audit"]["log"]["path"] = "nowhere/audit.log"
    document["log"] = {"level": "loud"}

    code, problems, _ = check(write(elsewhere, document))

    assert code == 1
    assert [problem.partition(": ")[0] for problem in problems] == [
        "log.level",
        "serving.certificateFile",
        "serving.keyFile",
        "authentication.clientCertificate.caFile",
        "authentication.frontProxy.caFile",
        "upstream.kubeconfig",
        "upstream.reviewer.kubeconfig",
        "audit.log.path",
        "audit.webhook.kubeconfig",
        "audit.policyFile",
    ]
    assert [line for line in problems if "No such file or directory" not in line] == problems[:1]


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("serving.crt", b"nonsense", "serving.certificateFile: cannot use"),
        ("serving.key", b"nonsense", "serving.keyFile: cannot use"),
        ("clients.crt", b"nonsense", "authentication.clientCertificate.caFile: "),
        ("fronts.crt", b"nonsense", "authentication.frontProxy.caFile: "),
        ("upstream.kubeconfig", b"[", "upstream.kubeconfig: cannot use kubeconfig"),
        ("reviewer.kubeconfig", b"users: [7]", "upstream.reviewer.kubeconfig: cannot use"),
        ("webhook.kubeconfig", b"clusters: []", "audit.webhook.kubeconfig: cannot use"),
        ("policy", POLICY.replace("level", "levle").encode(), "audit.policyFile: "),
    ],
)
def test_a_file_that_cannot_be_used_is_told_by_its_setting(
    check: Check,
    document: dict[str, Any],
    tmp_path: Path,
    file: str,
    content: bytes,
    expected: str,
) -> None:
    (tmp_path / file).write_bytes(content)

    code, problems, _ = check(write(tmp_path, document))

    assert code == 1
    assert problems
    assert all(problem.startswith(expected) for problem in problems)


def test_files_that_do_not_belong_together_are_told(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    CertificateAuthority("others").issue_server("127.0.0.1").write(tmp_path, "other")
    document["serving"]["keyFile"] = "other.key"
    (tmp_path / "fronts.crt").write_bytes((tmp_path / "clients.crt").read_bytes())
    document["authentication"]["frontProxy"]["allowedNames"] = []

    problems = check(write(tmp_path, document))[1]

    assert [problem.partition(": ")[0] for problem in problems] == [
        "serving",
        "authentication.frontProxy",
    ]


def test_a_credential_plugin_is_not_run(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    kubeconfig = yaml.safe_load((tmp_path / "upstream.kubeconfig").read_text())
    trace = tmp_path / "it ran"
    kubeconfig["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "touch",
            "args": [str(trace)],
            "interactiveMode": "Never",
        }
    }
    (tmp_path / "upstream.kubeconfig").write_text(yaml.safe_dump(kubeconfig))

    code, problems, _ = check(write(tmp_path, document))

    assert (code, problems) == (0, [])
    assert not trace.exists()


def test_what_a_running_proxy_could_not_take_is_told(
    check: Check, document: dict[str, Any], tmp_path: Path
) -> None:
    running = write(tmp_path, document, "running.yaml")
    harmless = write(tmp_path, {**document, "log": {"level": "debug"}})
    assert check("--running", running, harmless)[0] == 0
    document["serving"]["address"] = "127.0.0.1:9443"
    document["admin"] = {"address": "127.0.0.1:9444"}

    code, problems, _ = check("--running", running, write(tmp_path, document))

    assert code == 1
    assert problems == [
        "understudy: serving.address: was changed, which needs a restart",
        "understudy: admin.address: was changed, which needs a restart",
    ]


def test_the_file_may_be_named_by_the_environment(
    check: Check, document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(write(tmp_path, document)))

    assert check()[0] == 0


def test_the_schema_is_printed(check: Check) -> None:
    code, problems, printed = check("--schema")

    assert (code, problems) == (0, [])
    assert json.loads(printed)["properties"]["kind"]["const"] == "ProxyConfiguration"
