"""`kubectl proxy`, which lends its own identity to whoever reaches its port.

It speaks plain HTTP to its clients, so it has half of the others' TLS work to do, and it does not
ask who they are: everybody arrives as the user of its kubeconfig. It checks the host and the path
against patterns. No decision, no audit, no metrics, no access log. A client's own Authorization and
Impersonate-* headers would go through as they are, so its clients send none.

It is not asked to POST, for the same reason as kube-rbac-proxy.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contestants import Contestant, Entry
from bench.peers.listening import wait_for_address
from bench.stage import OWN_NAME, Stage
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, start_child
from proxy.sandbox.programs.binaries import find_binaries


@contextmanager
def _proxy(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    kubeconfig = write_kubeconfig(
        stage.directory / f"{entry.name}.kubeconfig",
        url=stage.upstream_url,
        ca_pem=stage.servers.certificate_pem,
        credential=stage.own_token,
    )
    process = start_child(
        [
            find_binaries().kubectl,
            "proxy",
            f"--kubeconfig={kubeconfig}",
            f"--address={LOOPBACK}",
            "--port=0",
        ],
        log_file=stage.directory / f"{entry.name}.log",
        # Preferences of whoever runs the benchmark (~/.kube/kuberc) are no part of it.
        environment=os.environ | {"HOME": str(stage.directory)},
    )
    try:
        yield Contestant(entry, wait_for_address(process), process.pid)
    finally:
        process.stop()


KUBECTL_PROXY = Entry(
    "kubectl-proxy",
    "kubectl proxy: plain HTTP from its clients (half of the TLS work), nobody is asked who they"
    " are, everybody is its own user; no decision, audit, metrics or log. It keeps 25 idle upstream"
    " connections, so with more clients it pays for new ones: see one connection beside it",
    _proxy,
    wanted="",
    acting=OWN_NAME,
    is_plain=True,
)
