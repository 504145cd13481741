"""Kubeconfigs of our own identity, and reading them."""

import json
from datetime import UTC, datetime
from pathlib import Path

from proxy.kubeclient.kubeconfig import KubeconfigSource
from proxy.upstream.credentials.credentials import UpstreamCredentials, load_credentials


def now() -> datetime:
    return datetime.now(UTC)


def kubeconfig(
    directory: Path, cluster: dict[str, object] | None = None, user: dict[str, object] | None = None
) -> Path:
    """Write a kubeconfig whose user has a token unless it is told otherwise."""
    file = directory / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:6443", **(cluster or {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "abc"} if user is None else user}],
    }
    file.write_text(json.dumps(document))
    return file


async def load(file: Path | None, *addresses: tuple[str, int]) -> UpstreamCredentials:
    """Read our identity, as of now."""
    return await load_credentials(KubeconfigSource(file, now), addresses)
