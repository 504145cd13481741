"""Who takes part: Go's ReverseProxy in two settings, and ourselves in three.

All of them verify the client's token, take its identity headers away, and forward with their own
credential and one complete identity, over TLS and HTTP/1.1 on both sides. The Go ones do that and
nothing else. We also decide (from memory, as for a busy client), count, and write an access log.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

import yaml

from bench.stage import CALLER, WANTED, Stage
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.ports import LOOPBACK, ReservedPort
from proxy.sandbox.processes import ChildProcess, start_child

_START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_OK = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """Somebody who may take part, in one of the settings that are compared."""

    name: str
    description: str
    is_ours: bool = False
    is_pooled: bool = False
    is_audited: bool = False
    impersonates: bool = True
    """Whether its clients ask to be somebody else. Only we heed that; the others take it away."""
    checkout: Path | None = None
    """Where our own code is taken from; None for the code beside this file."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Sections of our config file that differ from their defaults."""

    @property
    def wanted(self) -> str | None:
        """Whom its clients ask to be."""
        return WANTED if self.impersonates else None

    @property
    def acting(self) -> str:
        """Who its requests must be from where they arrive."""
        return WANTED if self.is_ours and self.impersonates else CALLER


GO_DEFAULT = Entry("go-default", "Go ReverseProxy, no BufferPool")
GO_POOLED = Entry("go-pooled", "Go ReverseProxy with a BufferPool", is_pooled=True)
US = Entry("us", "token, decision from memory, access log", is_ours=True)
PLAIN = Entry("us-plain", "us as the sources are, not compiled", is_ours=True)
US_AUDITED = Entry(
    "us+audit", "the same as us, and an audit event to a file", is_ours=True, is_audited=True
)
ENTRIES = (
    GO_DEFAULT,
    GO_POOLED,
    Entry("us-self", "the same, nobody impersonated", is_ours=True, impersonates=False),
    US,
    PLAIN,
    US_AUDITED,
)


def from_checkout(entry: Entry, checkout: Path) -> Entry:
    """Return one of ours as another checkout of the project does it, for a before and after."""
    return replace(
        entry,
        name=other_name(entry),
        description=f"{entry.name} of {checkout}",
        checkout=checkout,
    )


def as_compiled(entry: Entry, directory: Path) -> Entry:
    """Return one of ours with its hot path compiled."""
    return replace(entry, description=f"{entry.description}; compiled", checkout=directory)


def other_name(entry: Entry) -> str:
    """Return what one of ours is called when it comes from another checkout."""
    return f"other {entry.name}"


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who takes part, started."""

    entry: Entry
    address: str
    process: ChildProcess
    audit_file: Path | None = None

    @property
    def name(self) -> str:
        """What the tables call it."""
        return self.entry.name


@contextmanager
def running(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    """Run a contestant for the time of the context."""
    with _ours(entry, stage) if entry.is_ours else _by_go(entry, stage) as contestant:
        yield contestant


@contextmanager
def _by_go(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    process = stage.start_part(
        "proxy",
        entry.name,
        f"--upstream={stage.upstream_url}",
        f"--authority={stage.authority_file}",
        f"--own-token-file={stage.own_token_file}",
        f"--client-token-file={stage.client_token_file}",
        f"--pooled={str(entry.is_pooled).lower()}",
    )
    try:
        yield Contestant(entry, stage.address_of(entry.name), process)
    finally:
        process.stop()


@contextmanager
def _ours(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    audit_file = stage.directory / f"{entry.name}.audit" if entry.is_audited else None
    with ReservedPort() as port:
        config = _write_config(entry, stage, port.number, audit_file)
        process = start_child(
            [sys.executable, "-m", "proxy", "serve", "--config", config],
            log_file=stage.directory / f"{entry.name}.log",
            directory=entry.checkout,
        )
        try:
            address = f"{LOOPBACK}:{port.number}"
            _wait_until_serving(address, stage, process)
            yield Contestant(entry, address, process, audit_file)
        finally:
            process.stop()


def _write_config(entry: Entry, stage: Stage, port: int, audit_file: Path | None) -> Path:
    """Write a config that leaves all at its default but addresses, files and what is compared."""
    certificate, key = stage.issue_serving(entry.name)
    upstream = write_kubeconfig(
        stage.directory / f"{entry.name}.kubeconfig",
        url=stage.upstream_url,
        ca_pem=stage.servers.certificate_pem,
        credential=stage.own_token,
    )
    document: dict[str, object] = {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        "serving": {
            "address": f"{LOOPBACK}:{port}",
            "certificateFile": str(certificate),
            "keyFile": str(key),
        },
        "upstream": {"kubeconfig": str(upstream)},
        **entry.settings,
    }
    if audit_file is not None:
        # One file, however long: its lines are counted.
        document["audit"] = {"log": {"path": str(audit_file), "maxSize": 0}}
    config = stage.directory / f"{entry.name}.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return config


def _wait_until_serving(address: str, stage: Stage, process: ChildProcess) -> None:
    client = ApiClient(
        f"https://{address}", ca_pem=stage.servers.certificate_pem, credential=stage.client_token
    )
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(client):
        process.ensure_running()
        if time.monotonic() > deadline:
            raise SandboxError(f"the proxy does not serve, see {process.log_file}")
        time.sleep(_POLL_SECONDS)


def _answers(client: ApiClient) -> bool:
    try:
        return client.request("GET", "/version").status == _OK
    except (OSError, HTTPException):
        return False
