"""Lookup of a context: files, precedence, relative paths and errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.cli.kubeconfig_source import KubeconfigContext, KubeconfigSourceError, find_context


def entry(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"name": name, kind: content}


def kubeconfig(
    *,
    current: object = "one",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **context: Any,
) -> dict[str, Any]:
    """Return a kubeconfig with one context."""
    return {
        "current-context": current,
        "contexts": [entry("context", "one", **{"cluster": "c", "user": "u", **context})],
        "clusters": [entry("cluster", "c", **(cluster or {"server": "https://a"}))],
        "users": [entry("user", "u", **(user or {"token": "t"}))],
    }


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory without a KUBECONFIG."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return directory


def test_current_context_is_found_with_its_cluster_user_and_namespace(tmp_path: Path) -> None:
    file = write(tmp_path / "config", kubeconfig(namespace="web"))

    expected = KubeconfigContext({"server": "https://a"}, {"token": "t"}, "web")
    assert find_context("", file) == expected
    assert find_context("one", file) == expected


def test_named_context_takes_precedence_over_the_current_one(tmp_path: Path) -> None:
    document = kubeconfig()
    document["contexts"].append(entry("context", "two", cluster="d", user="u"))
    document["clusters"].append(entry("cluster", "d", server="https://b"))

    found = find_context("two", write(tmp_path / "config", document))

    assert (found.cluster, found.namespace) == ({"server": "https://b"}, None)


def test_file_in_the_home_directory_is_the_default(home: Path) -> None:
    write(home / ".kube" / "config", kubeconfig())

    assert find_context("", None).cluster == {"server": "https://a"}


def test_files_of_the_environment_replace_the_default_and_the_first_takes_precedence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".kube" / "config", kubeconfig(user={"token": "from home"}))
    first = write(tmp_path / "1", {"users": [entry("user", "u", token="from first")]})
    second = write(tmp_path / "2", kubeconfig(user={"token": "from second"}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}::{first}:{second}")

    found = find_context("", None)

    assert (found.cluster, found.user) == ({"server": "https://a"}, {"token": "from first"})


def test_given_file_replaces_the_files_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "1", kubeconfig())))
    other = write(tmp_path / "2", {"current-context": "one"})

    with pytest.raises(KubeconfigSourceError, match=f"context one is not in {other}"):
        find_context("", other)


def test_paths_are_absolute_and_relative_to_the_file_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = {
        "client-certificate": "a.crt",
        "client-key": "/keys/a.key",
        "tokenFile": "",
        "username": "a.crt",
    }
    write(tmp_path / "1" / "config", kubeconfig(cluster={"certificate-authority": "ca.crt"}))
    write(tmp_path / "0" / "config", {"users": [entry("user", "u", **users)]})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "0/config:1/config")

    found = find_context("", None)

    assert found.cluster == {"certificate-authority": str(tmp_path / "1" / "ca.crt")}
    assert found.user == {
        "client-certificate": str(tmp_path / "0" / "a.crt"),
        "client-key": "/keys/a.key",
        "tokenFile": "",
        "username": "a.crt",
    }


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("login", "login"),
        ("./login", "{directory}/login"),
        ("bin/login", "{directory}/bin/login"),
        ("/bin/login", "/bin/login"),
        (7, 7),
    ],
)
def test_plugin_with_a_directory_is_relative_to_its_kubeconfig(
    tmp_path: Path, command: object, expected: object
) -> None:
    plugin = {"command": command, "args": ["a/b"]}
    file = write(tmp_path / "config", kubeconfig(user={"exec": plugin}))

    found = find_context("", file).user["exec"]

    wanted = expected.format(directory=tmp_path) if isinstance(expected, str) else expected
    assert found == {"command": wanted, "args": ["a/b"]}


@pytest.mark.parametrize("current", [None, "", 7])
def test_file_without_a_current_context_needs_a_name(tmp_path: Path, current: object) -> None:
    file = write(tmp_path / "config", kubeconfig(current=current))

    assert find_context("one", file).user == {"token": "t"}
    with pytest.raises(KubeconfigSourceError, match="no kubeconfig has a current context"):
        find_context("", file)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (kubeconfig(current="two"), "context two is not in"),
        (kubeconfig() | {"clusters": []}, "cluster c is not in"),
        (kubeconfig() | {"users": "u"}, "user u is not in"),
        (kubeconfig() | {"users": ["u", {"name": "v"}]}, "user u is not in"),
        (kubeconfig() | {"contexts": [{"name": "one"}]}, "both a cluster and a user"),
        (kubeconfig() | {"contexts": [{"name": "one", "context": 7}]}, "both a cluster and a user"),
        (
            kubeconfig() | {"contexts": [entry("context", "one", cluster="c", user=7)]},
            "both a cluster and a user",
        ),
    ],
)
def test_incomplete_context_is_an_error(tmp_path: Path, document: object, message: str) -> None:
    with pytest.raises(KubeconfigSourceError, match=message):
        find_context("", write(tmp_path / "config", document))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "is not YAML"),
        (b"\xff\xfe\xff", "is not YAML"),
        (b"", "is not a kubeconfig"),
        (b"- a", "is not a kubeconfig"),
    ],
)
def test_unreadable_file_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)

    with pytest.raises(KubeconfigSourceError, match=f"{file} {message}"):
        find_context("", file)


def test_missing_file_is_an_error_only_if_it_is_given(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigSourceError, match=r"cannot read .*No such file"):
        find_context("", tmp_path / "missing")
    with pytest.raises(KubeconfigSourceError, match="context one is not in no kubeconfig"):
        find_context("one", None)
