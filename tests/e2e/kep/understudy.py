"""The proxy as its operator sees it: a door, metrics, an audit file, a log, and a reload."""

import json
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml
from prometheus_client.parser import text_string_to_metric_families

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import ALL_EXTRAS
from tests.support.control_plane import fresh_name
from tests.support.impersonation import poll

RELOADED = "decisions reloaded"

# A metric's name, with its mode and decision.
Series = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Understudy:
    """A running proxy."""

    process: ProxyProcess
    metrics_url: str
    audit_log: Path

    def client(self, credential: Credential) -> ApiClient:
        """Return a client that shows this credential to the proxy."""
        return self.process.client(credential)

    def log(self) -> str:
        """Return all it said so far."""
        return self.process.log_file.read_text()

    def counts(self) -> Counter[Series]:
        """Return how often impersonation was tried and checked so far."""
        return read_counts(self.metrics())

    def metrics(self) -> str:
        """Return the page of metrics."""
        with urlopen(self.metrics_url, timeout=10) as page:
            text: str = page.read().decode()
        return text

    def reload(self, **impersonation: object) -> None:
        """Decide by these settings of impersonation from now on, without a restart."""
        self.reload_section("impersonation", impersonation)

    def reload_section(self, name: str, section: dict[str, object]) -> None:
        """Decide by this section of the configuration from now on, without a restart."""
        file, before = self.process.config_file, self.log().count(RELOADED)
        document = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**document, name: section}))
        self.process.process.send_signal(signal.SIGHUP)
        poll(lambda: self.log().count(RELOADED) > before, "the proxy has not reloaded")


@contextmanager
def running_understudy(  # noqa: PLR0913 - each a setting of its own
    control_plane: ControlPlane,
    server: ApiServer,
    directory: Path,
    *,
    impersonation: dict[str, object] | None = None,
    kep_metric_names: bool = False,
    log_level: str = "info",
    audit: dict[str, object] | None = None,
    components: Sequence[str] = (ALL_EXTRAS,),
) -> Iterator[Understudy]:
    """Run a proxy before a server, and return it when callers are served."""
    audit_log = directory / "audit.log"
    with ReservedPort() as admin_port:
        settings: dict[str, Any] = {
            "admin": {
                "address": f"{LOOPBACK}:{admin_port.number}",
                "kepMetricNames": kep_metric_names,
            },
            "audit": {"log": {"path": str(audit_log)}, **(audit or {})},
            "impersonation": impersonation or {},
            "log": {"level": log_level},
        }
        with ProxyProcess(
            control_plane, server, settings=settings, components=components
        ) as process:
            url = f"http://{LOOPBACK}:{admin_port.number}/metrics"
            # Our own rights, and who we are, may take the API server a moment longer.
            anybody = process.client(control_plane.clients.issue_client(fresh_name("anybody")))
            poll(lambda: anybody.request("GET", "/version").status == 200, "nobody is served")
            yield Understudy(process, url, audit_log)


def read_counts(page: str) -> Counter[Series]:
    """Return the counters of impersonation on a page of metrics."""
    # A real server's page is long, and the parser slow: only what counts here is parsed.
    ours = [line for line in page.splitlines() if line.startswith("apiserver_impersonation_")]
    return Counter(
        {
            (sample.name, sample.labels["mode"], sample.labels["decision"]): int(sample.value)
            for family in text_string_to_metric_families("\n".join([*ours, ""]))
            for sample in family.samples
            if sample.name.endswith(("_total", "_count")) and "mode" in sample.labels
        }
    )


def events_of(audit_log: Path, audit_id: str) -> list[dict[str, Any]]:
    """Return the events of one request, in order; the last line may still be on its way."""
    lines = audit_log.read_bytes().rpartition(b"\n")[0].splitlines()
    events = [json.loads(line) for line in lines if audit_id.encode() in line]
    return [event for event in events if event["auditID"] == audit_id]


def complete_event(audit_log: Path, audit_id: str) -> dict[str, Any]:
    """Return the event that says how a request ended, waiting for it."""

    def complete() -> list[dict[str, Any]]:
        events = events_of(audit_log, audit_id) if audit_log.exists() else []
        return [event for event in events if event["stage"] == "ResponseComplete"]

    poll(lambda: bool(complete()), f"no event {audit_id} in {audit_log.name}")
    return complete()[0]
