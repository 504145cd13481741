"""`understudy kubeconfig`: who somebody is stays, and the way leads through the proxy."""

import base64
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.cli.main import main
from proxy.pki.authority import CertificateAuthority

Write = Callable[..., Any]
SERVER = ("--server", "https://proxy:8443")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    authority = CertificateAuthority("test")
    authority.issue_client("alice").write(tmp_path, "alice")
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


@pytest.fixture
def write(capsys: pytest.CaptureFixture[str]) -> Write:
    """Run the command and return what it printed."""

    def run(*arguments: object) -> Any:
        assert main(["kubeconfig", *SERVER, *map(str, arguments)]) == 0, capsys.readouterr().err
        return yaml.safe_load(capsys.readouterr().out)

    return run


def user_of(document: Any) -> Any:
    return document["users"][0]["user"]


def cluster_of(document: Any) -> Any:
    return document["clusters"][0]["cluster"]


def data(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def test_a_token_is_copied(write: Write, files: Path) -> None:
    document = write("--ca", files / "ca.crt", "--token-file", files / "token")

    assert document["current-context"] == "understudy"
    assert cluster_of(document) == {
        "server": "https://proxy:8443",
        "certificate-authority-data": data(files / "ca.crt"),
    }
    assert user_of(document) == {"token": "secret"}


def test_a_certificate_is_copied(write: Write, files: Path) -> None:
    pair = ("--client-certificate", files / "alice.crt", "--client-key", files / "alice.key")

    assert user_of(write(*pair)) == {
        "client-certificate-data": data(files / "alice.crt"),
        "client-key-data": data(files / "alice.key"),
    }


def test_files_that_are_renewed_are_named(
    write: Write, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)

    document = write("--ca", "ca.crt", "--token-file", "token", "--by-path")

    assert user_of(document) == {"tokenFile": str(files / "token")}
    assert cluster_of(document)["certificate-authority"] == str(files / "ca.crt")


def test_every_part_of_an_identity_can_be_said(write: Write, files: Path) -> None:
    identity = ("--as", "alice", "--as-uid", "u-1", "--as-group", "dev", "--as-group", "ops")
    extras = ("--as-user-extra", "a=1", "--as-user-extra", "b=x=y", "--as-user-extra", "a=2")

    document = write("--token-file", files / "token", *identity, *extras, "--namespace", "team-a")

    assert user_of(document) == {
        "token": "secret",
        "as": "alice",
        "as-uid": "u-1",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"a": ["1", "2"], "b": ["x=y"]},
    }
    assert document["contexts"][0]["context"]["namespace"] == "team-a"


PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "get-token",
    "args": ["--region", "x"],
    "interactiveMode": "Never",
}


def source(**user: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        "contexts": [
            {"name": "prod", "context": {"cluster": "c", "user": "u", "namespace": "team-b"}},
            {"name": "half", "context": {"cluster": "c"}},
        ],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://api:6443",
                    "certificate-authority": "pki/ca.crt",
                    "insecure-skip-tls-verify": True,
                    "tls-server-name": "api",
                    "proxy-url": "http://forward:3128",
                },
            }
        ],
        "users": [{"name": "u", "user": user}],
    }


@pytest.fixture
def have(tmp_path: Path) -> Callable[..., Path]:
    """Write a kubeconfig that somebody has."""

    def write_source(document: object, name: str = "config") -> Path:
        file = tmp_path / "home" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(document))
        return file

    return write_source


def test_a_context_keeps_its_plugin_and_gets_server_and_ca(
    write: Write, files: Path, have: Callable[..., Path]
) -> None:
    theirs = have(source(exec=PLUGIN))

    document = write("--from-context", "prod", "--kubeconfig", theirs, "--ca", files / "ca.crt")

    assert user_of(document) == {"exec": PLUGIN}
    assert cluster_of(document) == {
        "server": "https://proxy:8443",
        "certificate-authority-data": data(files / "ca.crt"),
        "proxy-url": "http://forward:3128",
    }
    assert document["contexts"][0]["context"]["namespace"] == "team-b"


def test_the_current_context_has_the_empty_name(write: Write, have: Callable[..., Path]) -> None:
    assert user_of(write("--from-context", "", "--kubeconfig", have(source(token="t")))) == {
        "token": "t"
    }


def test_paths_mean_the_same_in_the_new_place(write: Write, have: Callable[..., Path]) -> None:
    user = {
        "client-certificate": "me.crt",
        "client-key": "/elsewhere/me.key",
        "exec": PLUGIN | {"command": "./bin/get-token"},
    }
    theirs = have(source(**user))

    found = user_of(write("--from-context", "prod", "--kubeconfig", theirs))

    assert found["client-certificate"] == str(theirs.parent / "me.crt")
    assert found["client-key"] == "/elsewhere/me.key"
    assert found["exec"]["command"] == str(theirs.parent / "bin" / "get-token")


def test_a_new_identity_replaces_the_whole_old_one(write: Write, have: Callable[..., Path]) -> None:
    theirs = have(source(**{"token": "t", "as": "bob", "as-groups": ["masters"], "as-uid": "1"}))

    document = write("--from-context", "prod", "--kubeconfig", theirs, "--as", "alice")

    assert user_of(document) == {"token": "t", "as": "alice"}


def test_the_first_file_of_several_that_has_something_counts(
    write: Write, have: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = have({"users": [{"name": "u", "user": {"token": "first"}}]}, "first")
    second = have(source(token="second"), "second")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}::{first}:{second}")

    assert user_of(write("--from-context", "prod")) == {"token": "first"}


def test_the_usual_place_is_the_home_directory(
    write: Write, have: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    have(source(token="home")).parent.rename(tmp_path / ".kube")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert user_of(write("--from-context", "")) == {"token": "home"}


def test_a_file_is_for_its_owner_and_replaces_nothing_unasked(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = files / "k.yaml"
    command = ["kubeconfig", *SERVER, "--token-file", str(files / "token")]
    command += ["--output", str(output)]

    codes = [main(command), main(command), main([*command, "--force"])]

    assert codes == [0, 1, 0]
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert "exists; --force replaces it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "use exactly one of"),
        ("--token-file token --client-certificate alice.crt --client-key alice.key", "exactly one"),
        ("--client-certificate alice.crt", "must be used together"),
        ("--token-file none", "cannot read none: No such file or directory"),
        ("--token-file alice.key", "alice.key contains no bearer token"),
        ("--token-file token --ca token", "token is not PEM"),
        ("--token-file token --as-group dev", "need --as"),
        ("--token-file token --as system:node:$(NODE_NAME)", "$(...) was not expanded"),
        ("--token-file token --as system:node:", "not a valid node name"),
        ("--token-file token --as system:serviceaccount:a", "not a valid service account name"),
        ("--from-context prod --token-file token", "cannot be combined"),
        ("--from-context x --kubeconfig none", "cannot read none"),
        ("--from-context x --kubeconfig token", "token is not a kubeconfig"),
        ("--from-context x --kubeconfig odd.yaml", "odd.yaml is not YAML"),
        ("--from-context x --kubeconfig good.yaml", "context x is not in"),
        ("--from-context half --kubeconfig good.yaml", "does not name both"),
        ("--from-context lost --kubeconfig lost.yaml", "cluster gone is not in"),
        ("--from-context= --kubeconfig lost.yaml", "no kubeconfig has a current context"),
        ("--from-context x", "context x is not in no kubeconfig"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str,
    expected: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    (files / "odd.yaml").write_text("a: [")
    (files / "good.yaml").write_text(yaml.safe_dump(source(token="t")))
    lost = {"name": "lost", "context": {"cluster": "gone", "user": "u"}}
    (files / "lost.yaml").write_text(yaml.safe_dump({"contexts": ["odd", lost], "users": 7}))

    assert main(["kubeconfig", *SERVER, *arguments.split()]) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert expected in line
