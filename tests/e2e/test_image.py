"""What the Dockerfile does, done without an engine: its steps, and the result as its user runs it.

As root the programs here run as the image's user. In any case what was installed cannot be written
to: a directory without the permission stands for a root file system that is read-only.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.processes import LOOPBACK
from proxy.sandbox.proxy_process import QUICK_SHUTDOWN
from tests.support.dockerfile import ROOT, run_build_stage, stages
from tests.support.streaming import wait_until

# Installing the lock is a minute where nothing is at hand yet.
pytestmark = pytest.mark.timeout(300)

(USER,) = [one.rest for one in stages()[-1] if one.word == "USER"]


@pytest.fixture(scope="module")
def workshop() -> Iterator[Path]:
    """A directory that any user can look into, which pytest's own are not."""
    directory = Path(tempfile.mkdtemp(prefix="understudy-image-"))
    directory.chmod(0o755)
    yield directory
    for path in [directory, *directory.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def installed(workshop: Path) -> Path:
    """What the last stage has in /opt/understudy; nobody may write there."""
    made = run_build_stage(workshop)
    for path in [made, *made.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    return made


def as_image_user() -> list[str]:
    """Return what makes the next words run as the image's user, or nothing without that right."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        return []
    uid, gid = USER.split(":")
    # It may look everywhere and write nowhere: the interpreter of a test may be in root's home.
    reading = "-all,+dac_read_search"
    capabilities = [f"--inh-caps={reading}", f"--ambient-caps={reading}"]
    return [setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *capabilities]


def image_environment() -> dict[str, str]:
    """What the last stage sets, and nothing of this machine's."""
    (line,) = [one.rest for one in stages()[-1] if one.word == "ENV"]
    settings = dict(pair.split("=", 1) for pair in line.split())
    return settings | {"PATH": os.defpath}


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*as_image_user(), installed / "bin" / "understudy", *arguments],
        env=image_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_starts(installed: Path) -> None:
    done = run(installed, "version")

    assert done.returncode == 0, done.stderr
    assert version("kube-understudy") in done.stdout


def test_the_example_configuration_is_understood(installed: Path, workshop: Path) -> None:
    config = workshop / "config.yaml"
    shutil.copy(ROOT / "config.example.yaml", config)
    good = run(installed, "check-config", "--no-files", str(config))
    config.write_text(config.read_text() + "unheardOf: 1\n")
    bad = run(installed, "check-config", "--no-files", str(config))

    assert good.returncode == 0, good.stdout + good.stderr
    assert bad.returncode != 0
    assert "unheardOf" in bad.stdout + bad.stderr


def test_no_tools_go_on(installed: Path) -> None:
    packages = {path.name.partition("-")[0] for path in installed.glob("lib/*/site-packages/*")}

    assert "kube_understudy" in packages
    assert packages & {"pip", "setuptools", "wheel", "hatchling", "pytest", "mypy", "ruff"} == set()
    assert sorted(installed.glob("bin/pip*")) == []


def test_the_bytecode_was_made_with_the_install(installed: Path) -> None:
    (package,) = installed.glob("lib/*/site-packages/proxy")
    sources = {path.stem for path in package.glob("*.py")}

    assert {path.name.partition(".")[0] for path in package.glob("__pycache__/*.pyc")} == sources


@pytest.fixture
def config(installed: Path, workshop: Path) -> Path:
    """A configuration with a certificate of the program's own making, and no API server."""
    printed = run(installed, "certificate", "localhost", "--namespace", "understudy")
    authority, secret = yaml.safe_load_all(printed.stdout)
    directory = workshop / "etc"
    directory.mkdir()
    for name, value in secret["data"].items():
        (directory / name).write_bytes(base64.b64decode(value))
    (directory / "ca.crt").write_text(authority["data"]["ca.crt"])
    cluster = {"server": f"https://{LOOPBACK}:1", "certificate-authority": "ca.crt"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "nowhere", "cluster": cluster}],
        "users": [{"name": "nobody", "user": {"token": "none"}}],
        "contexts": [{"name": "here", "context": {"cluster": "nowhere", "user": "nobody"}}],
        "current-context": "here",
    }
    document = {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        "serving": {
            "address": f"{LOOPBACK}:0",
            "certificateFile": str(directory / "tls.crt"),
            "keyFile": str(directory / "tls.key"),
            "shutdown": dict(QUICK_SHUTDOWN),
        },
        "upstream": {"kubeconfig": str(directory / "kubeconfig")},
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    (directory / "config.yaml").write_text(yaml.safe_dump(document))
    return directory / "config.yaml"


@contextmanager
def serving(installed: Path, config: Path, log_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log_file.open("wb") as log,
        subprocess.Popen(
            [*as_image_user(), installed / "bin" / "understudy", "serve", "--config", config],
            env=image_environment(),
            cwd="/",
            stdout=log,
            stderr=log,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def served_port(log_file: Path) -> int | None:
    for line in log_file.read_text().splitlines():
        said = json.loads(line)
        if said.get("message") == "serving":
            return int(said["address"].rpartition(":")[2])
    return None


def files(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def test_it_serves_without_writing_anything_and_ends_well(
    installed: Path, config: Path, workshop: Path
) -> None:
    log_file, before = workshop / "serve.log", files(installed)
    with serving(installed, config, log_file) as process:
        wait_until(lambda: served_port(log_file) is not None, "it does not serve")
        port = served_port(log_file)
        client = ApiClient(
            f"https://localhost:{port}", ca_pem=config.with_name("ca.crt").read_bytes()
        )

        response = client.request("GET", "/version")
        process.terminate()

        assert process.wait(timeout=30) == 0
    assert response.status == 401
    assert files(installed) == before
