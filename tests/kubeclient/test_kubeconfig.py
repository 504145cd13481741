"""Sources of client credentials: what is read, when it is read again, and what is an error.

`test_kubeconfig_exec_plugins.py` has the plugins as the proxy's credentials use them.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, incluster_config

from proxy.kubeclient.kubeconfig import (
    KubeconfigSource,
    LoadedKubeconfig,
    pod_namespace,
    run_in_own_loop,
    uses_exec_plugin,
)
from tests.upstream.kubeconfigs import kubeconfig

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLUGIN_API = "client.authentication.k8s.io/v1"


def noon() -> datetime:
    return NOON


def plugin_user(directory: Path, *, args: object = None) -> dict[str, object]:
    """Return a user whose plugin prints a token that expires ten minutes after noon."""
    status = {"token": "abc", "expirationTimestamp": "2030-01-01T12:10:00Z"}
    credential = {"apiVersion": PLUGIN_API, "kind": "ExecCredential", "status": status}
    program = directory / "plugin"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    program.chmod(0o755)
    command: dict[str, object] = {"apiVersion": PLUGIN_API, "command": str(program)}
    if args is not None:
        command["args"] = args
    return {"exec": command}


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a pod's service account."""
    for name, content in (("token", "first"), ("ca.crt", "ca"), ("namespace", "prod\n")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def bearer(loaded: LoadedKubeconfig) -> object:
    return loaded.configuration.api_key.get("BearerToken")


def test_source_is_named_by_its_file_or_the_pod() -> None:
    assert str(KubeconfigSource(Path("/a"), noon)) == "kubeconfig /a"
    assert str(KubeconfigSource(None, noon)) == "the pod's service account"


async def test_token_of_a_kubeconfig_is_read_again_on_every_call(tmp_path: Path) -> None:
    source = KubeconfigSource(kubeconfig(tmp_path), noon)

    first = await source.read()
    kubeconfig(tmp_path, user={"token": "new"})
    second = await source.read(first)

    assert (bearer(first), bearer(second)) == ("Bearer abc", "Bearer new")
    assert first.configuration.host == "https://127.0.0.1:6443"
    assert (first.uses_exec_plugin, first.expires) == (False, None)


async def test_unchanged_file_is_read_again_because_it_may_name_changed_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("old")
    source = KubeconfigSource(kubeconfig(tmp_path, user={"tokenFile": "token"}), noon)

    first = await source.read()
    (tmp_path / "token").write_text("new")
    second = await source.read(first)

    assert first.document == second.document
    assert (bearer(first), bearer(second)) == ("Bearer old", "Bearer new")


async def test_result_of_a_plugin_has_its_expiry(tmp_path: Path) -> None:
    loaded = await KubeconfigSource(kubeconfig(tmp_path, user=plugin_user(tmp_path)), noon).read()

    assert loaded.uses_exec_plugin
    assert loaded.expires == NOON + timedelta(minutes=10)
    assert bearer(loaded) == "Bearer abc"


@pytest.mark.parametrize(
    ("expires", "is_reused"),
    [
        (None, True),
        (NOON + timedelta(seconds=61), True),
        (NOON + timedelta(seconds=60), False),
        (NOON - timedelta(seconds=1), False),
    ],
    ids=["without expiry", "valid", "about to expire", "expired"],
)
async def test_result_of_a_plugin_is_reused_until_shortly_before_its_expiry(
    tmp_path: Path, expires: datetime | None, *, is_reused: bool
) -> None:
    file = kubeconfig(tmp_path, user=plugin_user(tmp_path))
    last = LoadedKubeconfig(
        Configuration(), file.read_bytes(), uses_exec_plugin=True, expires=expires
    )

    assert (await KubeconfigSource(file, noon).read(last) is last) is is_reused


async def test_result_of_a_plugin_is_not_reused_for_a_changed_kubeconfig(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, user=plugin_user(tmp_path))
    last = LoadedKubeconfig(Configuration(), b"another", uses_exec_plugin=True)

    assert await KubeconfigSource(file, noon).read(last) is not last


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "it is not YAML"),
        ("", "it is not a mapping"),
        ("- a", "it is not a mapping"),
        ("current-context: c\ncontexts: c\n", "it is not a well-formed kubeconfig"),
        ("current-context: c\ncontexts: [1]\n", "it is not a well-formed kubeconfig"),
    ],
)
async def test_malformed_kubeconfig_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)

    with pytest.raises(ValueError, match=message):
        await KubeconfigSource(file, noon).read()
    with pytest.raises(ValueError, match=message):
        uses_exec_plugin(file)


async def test_kubeconfig_with_an_unknown_context_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("current-context: other\ncontexts: []\nclusters: []\nusers: []\n")

    with pytest.raises(ConfigException):
        await KubeconfigSource(file, noon).read()
    with pytest.raises(ValueError, match="not a well-formed kubeconfig"):
        uses_exec_plugin(file)


async def test_absent_kubeconfig_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await KubeconfigSource(tmp_path / "absent", noon).read()
    with pytest.raises(FileNotFoundError):
        uses_exec_plugin(tmp_path / "absent")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"--key": "hunter2"}, "the args of its plugin are not a list"),
        ("--key=hunter2", "it is not a well-formed kubeconfig"),
    ],
    ids=["mapping", "text"],
)
async def test_error_about_the_args_of_a_plugin_does_not_repeat_them(
    tmp_path: Path, args: object, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = kubeconfig(tmp_path, user=plugin_user(tmp_path, args=args))

    with pytest.raises(ValueError, match=message) as raised:
        await KubeconfigSource(file, noon).read()
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "a"}, False),
        ({}, False),
        ({"exec": {"command": "a"}}, True),
        ({"auth-provider": {"name": "oidc"}}, True),
    ],
    ids=str,
)
def test_plugin_is_found_in_the_user_section(
    tmp_path: Path, user: dict[str, object], *, expected: bool
) -> None:
    assert uses_exec_plugin(kubeconfig(tmp_path, user=user)) is expected


def test_plugin_of_another_user_does_not_count(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    document = json.loads(file.read_text())
    document["users"].append({"name": "other", "user": {"exec": {"command": "a"}}})
    file.write_text(json.dumps(document))

    assert not uses_exec_plugin(file)


async def test_service_account_of_the_pod_is_read_again_on_every_call(pod: Path) -> None:
    source = KubeconfigSource(None, noon)

    first = await source.read()
    (pod / "token").write_text("second")
    second = await source.read(first)

    assert (bearer(first), bearer(second)) == ("Bearer first", "Bearer second")
    assert first.configuration.host == "https://10.0.0.1:443"
    assert first.configuration.ssl_ca_cert == str(pod / "ca.crt")
    assert not first.uses_exec_plugin


async def test_service_account_without_a_token_is_an_error(pod: Path) -> None:
    (pod / "token").unlink()

    with pytest.raises(ConfigException, match="token file does not exist"):
        await KubeconfigSource(None, noon).read()


def test_namespace_of_the_pod_is_read_beside_its_token(pod: Path) -> None:
    assert pod_namespace() == "prod"

    (pod / "namespace").unlink()
    with pytest.raises(FileNotFoundError):
        pod_namespace()


def test_coroutine_in_its_own_loop_ends_before_the_call_returns() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    run_in_own_loop(note, 5.0)

    assert [loop.is_closed() for loop in loops] == [True]


def test_error_in_its_own_loop_is_raised() -> None:
    async def fail() -> None:
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError, match="no answer"):
        run_in_own_loop(fail, 5.0)


def has_exited(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_child_processes_are_killed_when_time_is_up_and_at_the_end() -> None:
    children: list[int] = []

    def starting(*, waits: bool) -> Callable[[], Coroutine[object, object, None]]:
        async def start() -> None:
            child = await asyncio.create_subprocess_exec("sleep", "600")
            children.append(child.pid)
            if waits:
                await child.wait()

        return start

    with pytest.raises(TimeoutError):
        run_in_own_loop(starting(waits=True), 0.2)
    run_in_own_loop(starting(waits=False), 5.0)

    assert [has_exited(child) for child in children] == [True, True]
