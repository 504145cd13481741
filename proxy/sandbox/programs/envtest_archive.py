"""Download of the official envtest archive with etcd, kube-apiserver and kubectl.

The index lists a link and a SHA-512 for each release; a download that does not match is discarded.
Set `$UNDERSTUDY_ENVTEST_INDEX` to the URL of a mirror's index. Without a network the download fails
within seconds, so that a build can start instead.
"""

import hashlib
import os
import platform
import shutil
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.cache import KUBERNETES_VERSION, PROGRAMS, Announce

INDEX_VARIABLE = "UNDERSTUDY_ENVTEST_INDEX"
OFFICIAL_INDEX = (
    "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
)
INDEX_DEADLINE_SECONDS = 4.0
READ_TIMEOUT_SECONDS = 10.0
MAX_INDEX_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Archive:
    """The URL and the expected hash of an archive."""

    url: str
    sha512: str


def archive_name() -> str:
    """Return the archive's name for this platform."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = ARCHITECTURES.get(platform.machine(), platform.machine())
    return f"envtest-v{KUBERNETES_VERSION}-{system}-{machine}.tar.gz"


def download_programs(directory: Path, announce: Announce) -> str:
    """Download every program into a directory; return a description of the origin."""
    index = os.environ.get(INDEX_VARIABLE) or OFFICIAL_INDEX
    archive = _find_archive(_read_index(index))
    announce(f"downloading {archive.url}")
    packed = directory / "envtest.tar.gz"
    _download(archive, packed)
    _unpack(packed, directory)
    packed.unlink()
    return f"downloaded from {archive.url}"


def _read_index(url: str) -> object:
    """Return the parsed index, or raise SandboxError within the deadline."""
    # A socket timeout does not cover name resolution, which may block for long without a network.
    document = _within(INDEX_DEADLINE_SECONDS, lambda: _fetch(url))
    try:
        return yaml.safe_load(document)
    except yaml.YAMLError as error:
        raise SandboxError("the index is not YAML") from error


def _find_archive(index: object) -> Archive:
    name = archive_name()
    match _entry(index, "releases", f"v{KUBERNETES_VERSION}", name):
        case {"hash": str(sha512), "selfLink": str(url)}:
            return Archive(url, sha512)
        case _:
            raise SandboxError(f"the index lists no {name}")


def _entry(document: object, *keys: str) -> object:
    """Return the value at nested keys, or None if a key is missing."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _download(archive: Archive, target: Path) -> None:
    digest = hashlib.sha512()
    try:
        with _open(archive.url) as source, target.open("wb") as packed:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                packed.write(chunk)
    except OSError as error:
        raise SandboxError(f"cannot download {archive.url}: {error}") from error
    if digest.hexdigest() != archive.sha512.lower():
        raise SandboxError(f"{archive.url} does not have the checksum its index lists")


def _unpack(packed: Path, directory: Path) -> None:
    """Extract only the known programs, under their known names."""
    try:
        with tarfile.open(packed) as archive:
            for member in archive:
                name = Path(member.name).name
                content = archive.extractfile(member) if name in PROGRAMS else None
                if content is not None:
                    _write_program(content, directory / name)
    except (OSError, tarfile.TarError) as error:
        raise SandboxError(f"cannot unpack the archive: {error}") from error


def _write_program(content: IO[bytes], path: Path) -> None:
    with content, path.open("wb") as program:
        shutil.copyfileobj(content, program)
    path.chmod(0o755)


def _fetch(url: str) -> bytes:
    with _open(url) as source:
        return source.read(MAX_INDEX_BYTES)


def _open(url: str) -> IO[bytes]:
    if not url.startswith(("https:", "http:")):
        raise SandboxError(f"not a web address: {url}")
    try:
        opened: IO[bytes] = urllib.request.urlopen(url, timeout=READ_TIMEOUT_SECONDS)  # noqa: S310 - a web address, see above
    except urllib.error.HTTPError as error:
        error.close()  # otherwise it keeps the connection open
        raise
    return opened


def _within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """Return the result of `work`; raise SandboxError if it fails or times out."""
    results: list[bytes] = []
    failures: list[Exception] = []

    def attempt() -> None:
        try:
            results.append(work())
        except (OSError, ValueError, SandboxError) as error:
            failures.append(error)

    worker = threading.Thread(target=attempt, daemon=True)
    worker.start()
    worker.join(seconds)
    if results:
        return results[0]
    raise SandboxError(f"cannot read the index: {failures[0] if failures else 'no answer in time'}")
