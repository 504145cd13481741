"""Custom resource definitions of others, at the versions that `crds/go.mod` pins.

They come out of the Go modules of those who publish them, checked by `go.sum`, once per machine.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from proxy.sandbox.programs.go_program import build_once
from tests.support.build_once import report_missing

MODULE = Path(__file__).with_name("crds")
# Where each module keeps them.
_DIRECTORIES = {
    "github.com/cert-manager/cert-manager": "deploy/crds",
    "github.com/prometheus-operator/prometheus-operator": "example/prometheus-operator-crd",
}
_FETCH_SECONDS = 240


def pinned_crds() -> Path:
    """Return a directory of CRDs, GROUP_PLURAL.yaml; skip or fail the test if Go has no way."""
    content = b"".join((MODULE / file).read_bytes() for file in ("go.mod", "go.sum"))
    try:
        return build_once(f"crds-{hashlib.sha256(content).hexdigest()[:16]}", _fetch)
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"no pinned CRDs: {getattr(error, 'stderr', None) or error}")


def pinned_versions() -> dict[str, str]:
    """Return the version of each module."""
    required = re.findall(r"^\t(\S+) (v\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    return dict(required)


def _fetch(directory: Path) -> None:
    wanted = [f"{module}@{version}" for module, version in pinned_versions().items()]
    done = subprocess.run(
        ["go", "mod", "download", "-json", *wanted],
        cwd=MODULE,
        env=os.environ | {"GOFLAGS": "-mod=readonly", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=_FETCH_SECONDS,
        check=True,
    )
    for module in _json_documents(done.stdout):
        for file in (Path(module["Dir"]) / _DIRECTORIES[module["Path"]]).glob("*.yaml"):
            # Not its mode: the module cache is read-only, and ours is to be removable.
            shutil.copyfile(file, directory / file.name)


def _json_documents(text: str) -> list[dict[str, str]]:
    """Return documents that stand one after the other, as Go prints them."""
    decoder, documents = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:]
    return documents
