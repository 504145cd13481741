"""Who takes part: Go's ReverseProxy in two settings, and ourselves in two.

All of them verify the client's token, take its identity headers away, and forward with their own
credential and one complete identity, over TLS and HTTP/1.1 on both sides. The Go ones do that and
nothing else. We also decide (from memory, as for a busy client), count, and write an access log.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import yaml

from bench.stage import CALLER, WANTED, Stage
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child

_START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_OK = 200
_IN_FLIGHT = 2000
_CONNECTIONS = 6000


@dataclass(frozen=True, slots=True)
class Entry:
    """Somebody who may take part, in one of the settings that are compared.

    Unless told otherwise its clients speak TLS and ask to be WANTED, and its requests arrive
    upstream as CALLER: whoever does not heed the wish takes it away.
    """

    name: str
    description: str
    start: "Starter"
    wanted: str = WANTED
    """Whom its clients ask to be; "" if nobody."""
    acting: str = CALLER
    """Who its requests must be from where they arrive, as the upstream tells it."""
    is_plain: bool = False
    """Whether its clients speak HTTP without TLS and show no token, because it wants neither."""
    is_ours: bool = False
    checkout: Path | None = None
    """Where our own code is taken from; None for the code beside this file."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Sections of our config file; each of their keys replaces the usual one."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who takes part, started."""

    entry: Entry
    address: str
    """Host and port."""
    pid: int | None
    """The process that is measured, together with its children; None if there is none."""
    audit_file: Path | None = None
    metrics_url: str = ""
    """Ours only: where it tells how it decided."""

    @property
    def name(self) -> str:
        """What the tables call it."""
        return self.entry.name


# The second argument is whatever the scene opens: for data-plane rows a Stage.
Starter = Callable[[Entry, Any], AbstractContextManager[Contestant]]


def other_name(name: str) -> str:
    """Return what one of ours is called when it comes from another checkout."""
    return f"other {name}"


def from_checkout(entry: Entry, checkout: Path) -> Entry:
    """Return one of ours as another checkout of the project does it, for a before and after."""
    return replace(
        entry,
        name=other_name(entry.name),
        description=f"{entry.name} of {checkout}",
        checkout=checkout,
    )


@contextmanager
def start_go(entry: Entry, stage: Stage, *, is_pooled: bool) -> Iterator[Contestant]:
    """Run Go's ReverseProxy."""
    process = stage.start_part(
        "proxy",
        entry.name,
        f"--upstream={stage.upstream_url}",
        f"--authority={stage.authority_file}",
        f"--own-token-file={stage.own_token_file}",
        f"--client-token-file={stage.client_token_file}",
        f"--pooled={str(is_pooled).lower()}",
    )
    try:
        yield Contestant(entry, stage.address_of(entry.name), process.pid)
    finally:
        process.stop()


@contextmanager
def start_ours(entry: Entry, stage: Stage, *, is_audited: bool) -> Iterator[Contestant]:
    """Run our own proxy."""
    audit_file = stage.directory / f"{entry.name}.audit" if is_audited else None
    with ReservedPort() as port, ReservedPort() as admin_port:
        admin = f"{LOOPBACK}:{admin_port.number}"
        address = f"{LOOPBACK}:{port.number}"
        config = _write_config(entry, stage, addresses=(address, admin), audit_file=audit_file)
        process = start_child(
            [sys.executable, "-m", "proxy", "serve", "--config", config],
            log_file=stage.directory / f"{entry.name}.log",
            directory=entry.checkout,
        )
        try:
            wait_until_serving(address, stage, process)
            yield Contestant(entry, address, process.pid, audit_file, f"http://{admin}/metrics")
        finally:
            process.stop()


@contextmanager
def _no_proxy(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    yield Contestant(entry, stage.address_of("upstream"), None)


DIRECT = Entry("direct", "no proxy: the limit of load and upstream", _no_proxy, wanted="")
GO_DEFAULT = Entry(
    "go-default",
    "Go ReverseProxy, no BufferPool: token look-up and header rewrite alone. It keeps 256 idle"
    " upstream connections, so with more clients it pays for new ones",
    partial(start_go, is_pooled=False),
)
GO_POOLED = Entry(
    "go-pooled", "the same as go-default, with a BufferPool", partial(start_go, is_pooled=True)
)
US = Entry(
    "us",
    "token, decision from memory, metrics, access log",
    partial(start_ours, is_audited=False),
    acting=WANTED,
    is_ours=True,
)
US_AUDITED = replace(
    US,
    name="us+audit",
    description="the same as us, and an audit event to a file",
    start=partial(start_ours, is_audited=True),
)
ENTRIES = (DIRECT, GO_DEFAULT, GO_POOLED, US, US_AUDITED)


def _write_config(
    entry: Entry, stage: Stage, *, addresses: tuple[str, str], audit_file: Path | None
) -> Path:
    """Write a config that leaves everything at its default but addresses, files, audit, and limits.

    The load is one caller from one place, with up to a thousand requests at a time. We would turn
    away what Go's proxy has no limit for.
    """
    serving, admin = addresses
    certificate, key = stage.issue_serving(entry.name)
    upstream = write_kubeconfig(
        stage.directory / f"{entry.name}.kubeconfig",
        url=stage.upstream_url,
        ca_pem=stage.servers.certificate_pem,
        credential=stage.own_token,
    )
    usual: dict[str, dict[str, object]] = {
        "serving": {
            "address": serving,
            "certificateFile": str(certificate),
            "keyFile": str(key),
            "limits": {
                "readsInFlight": _IN_FLIGHT,
                "writesInFlight": _IN_FLIGHT,
                "callerPercent": 100,
                "connections": _CONNECTIONS,
                "connectionsPerAddress": _CONNECTIONS,
            },
            "shutdown": {"delay": "0s"},
        },
        "upstream": {"kubeconfig": str(upstream)},
        "admin": {"address": admin},
    }
    if audit_file is not None:
        # One file, however long: its lines are counted.
        usual["audit"] = {"log": {"path": str(audit_file), "maxSize": 0}}
    document = {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        **usual,
        **{name: {**usual.get(name, {}), **keys} for name, keys in entry.settings.items()},
    }
    config = stage.directory / f"{entry.name}.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return config


def wait_until_serving(address: str, stage: Stage, process: ChildProcess) -> None:
    """Return when a proxy answers by TLS; raise SandboxError if it has ended or never does."""
    client = ApiClient(
        f"https://{address}", ca_pem=stage.servers.certificate_pem, credential=stage.client_token
    )
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(client):
        process.ensure_running()
        if time.monotonic() > deadline:
            raise SandboxError(f"{process.program.name} does not serve: {process.log_tail()}")
        time.sleep(_POLL_SECONDS)


def _answers(client: ApiClient) -> bool:
    try:
        return client.request("GET", "/version").status == _OK
    except (OSError, HTTPException):
        return False
