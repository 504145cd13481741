"""The contestants: Go's ReverseProxy in two settings, and this proxy in two.

All of them verify the client's token, and remove its identity headers. They forward with their own
credential and one complete identity, over TLS and HTTP/1.1 on both sides. The Go ones do nothing
else. This proxy also authorizes (from its cache, as for a busy client), updates metrics, and writes
an access log.
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
    """A program that can be measured, in one of the settings that are compared.

    By default its clients use TLS and request to impersonate WANTED, and its requests arrive
    upstream as CALLER: a proxy without impersonation removes those headers.
    """

    name: str
    description: str
    start: "Starter"
    wanted: str = WANTED
    """The user that its clients request to impersonate; "" for none."""
    impersonated_user: str = CALLER
    """The user that its requests must arrive as, according to the upstream."""
    is_plain: bool = False
    """Whether its clients use HTTP without TLS and without a token, because it requires neither."""
    is_proxy: bool = False
    checkout: Path | None = None
    """The checkout of the proxy's code; None for this one."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Sections of the proxy's config file; each of their keys replaces the default one."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A started contestant."""

    entry: Entry
    address: str
    """Host and port."""
    pid: int | None
    """The process that is measured, together with its children; None if there is none."""
    audit_file: Path | None = None
    metrics_url: str = ""
    """The metrics endpoint of this proxy; empty for others."""

    @property
    def name(self) -> str:
        """Return the name in the tables."""
        return self.entry.name


# The second argument is the scene's environment: for data-plane rows a Stage.
Starter = Callable[[Entry, Any], AbstractContextManager[Contestant]]


def other_name(name: str) -> str:
    """Return the name of an entry of another checkout."""
    return f"other {name}"


def from_checkout(entry: Entry, checkout: Path) -> Entry:
    """Return an entry with the code of another checkout, for a comparison of two versions."""
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
def start_proxy(entry: Entry, stage: Stage, *, is_audited: bool) -> Iterator[Contestant]:
    """Run this proxy."""
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
    "Go ReverseProxy, no BufferPool: only token lookup and header rewrite. It keeps 256 idle"
    " upstream connections, so with more clients it pays for new ones",
    partial(start_go, is_pooled=False),
)
GO_POOLED = Entry(
    "go-pooled", "the same as go-default, with a BufferPool", partial(start_go, is_pooled=True)
)
US = Entry(
    "us",
    "this proxy: token, cached decision, metrics, access log",
    partial(start_proxy, is_audited=False),
    impersonated_user=WANTED,
    is_proxy=True,
)
US_AUDITED = replace(
    US,
    name="us+audit",
    description="the same as us, and an audit event to a file",
    start=partial(start_proxy, is_audited=True),
)
ENTRIES = (DIRECT, GO_DEFAULT, GO_POOLED, US, US_AUDITED)


def _write_config(
    entry: Entry, stage: Stage, *, addresses: tuple[str, str], audit_file: Path | None
) -> Path:
    """Write a config with defaults for everything except addresses, files, audit and limits.

    The load is one caller from one address, with up to a thousand concurrent requests. The default
    limits would reject them, while Go's proxy has no limits.
    """
    serving, admin = addresses
    certificate, key = stage.issue_serving(entry.name)
    upstream = write_kubeconfig(
        stage.directory / f"{entry.name}.kubeconfig",
        url=stage.upstream_url,
        ca_pem=stage.servers.certificate_pem,
        credential=stage.own_token,
    )
    defaults: dict[str, dict[str, object]] = {
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
        # One file without rotation, because its lines are counted.
        defaults["audit"] = {"log": {"path": str(audit_file), "maxSize": 0}}
    document = {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        **defaults,
        **{name: {**defaults.get(name, {}), **keys} for name, keys in entry.settings.items()},
    }
    config = stage.directory / f"{entry.name}.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return config


def wait_until_serving(address: str, stage: Stage, process: ChildProcess) -> None:
    """Return when a proxy responds over TLS; SandboxError if it exits or does not in time."""
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
