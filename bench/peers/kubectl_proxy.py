"""`kubectl proxy`, which forwards all requests with its own identity.

Its clients use plain HTTP, so it has half of the others' TLS work, and it does not authenticate
them: every request arrives as the user of its kubeconfig. It checks the host and the path against
patterns. It has no authorization, audit, metrics or access log. It would forward a client's own
Authorization and Impersonate-* headers unchanged, so its clients send none.

It is not measured with POST, for the same reason as kube-rbac-proxy.
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
        # The user's preferences (~/.kube/kuberc) must not influence the benchmark.
        environment=os.environ | {"HOME": str(stage.directory)},
    )
    try:
        yield Contestant(entry, wait_for_address(process), process.pid)
    finally:
        process.stop()


KUBECTL_PROXY = Entry(
    "kubectl-proxy",
    "kubectl proxy: plain HTTP from its clients (half of the TLS work), no authentication, all"
    " requests as its own user; no authorization, audit, metrics or log. It keeps 25 idle upstream"
    " connections, so with more clients it opens new ones: compare with one connection",
    _proxy,
    wanted="",
    impersonated_user=OWN_NAME,
    is_plain=True,
)
