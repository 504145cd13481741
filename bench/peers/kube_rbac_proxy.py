"""kube-rbac-proxy, a proxy that authenticates and authorizes the callers of a service.

It sends a TokenReview and a SubjectAccessReview, caches the results (for two and five minutes, its
defaults), and names the caller in X-Remote-User and X-Remote-Groups. It does less than this proxy:
one check per request instead of one per value of the wanted user; no impersonation, audit, metrics
or access log. It forwards a client's Impersonate-* headers, so its clients send none here. It
presents no credential to the upstream. It could present a client certificate, which would make each
of its many handshakes more expensive.

It is not measured with POST: if the upstream responds right after the body, it may lose the
response (golang/go#40747, which `bench/go/reverse_proxy.go` avoids).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contestants import Contestant, Entry, wait_until_serving
from bench.peers.listening import wait_for_address
from bench.stage import CALLER, Stage
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, start_child
from proxy.sandbox.programs.go_program import go_program

_SOURCE = Path(__file__).with_name("rbac_proxy")
_PACKAGE = "github.com/brancz/kube-rbac-proxy/cmd/kube-rbac-proxy"


@contextmanager
def _proxy(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    certificate, key = stage.issue_serving(entry.name)
    reviewer = write_kubeconfig(
        stage.directory / f"{entry.name}.kubeconfig",
        url=stage.upstream_url,
        ca_pem=stage.servers.certificate_pem,
        credential=stage.own_token,
    )
    process = start_child(
        [
            build(),
            f"--secure-listen-address={LOOPBACK}:0",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--kubeconfig={reviewer}",
            f"--upstream={stage.upstream_url}/",
            f"--upstream-ca-file={stage.authority_file}",
            "--auth-header-fields-enabled",
        ],
        log_file=stage.directory / f"{entry.name}.log",
    )
    try:
        address = wait_for_address(process)
        wait_until_serving(address, stage, process)
        yield Contestant(entry, address, process.pid)
    finally:
        process.stop()


def build() -> Path:
    """Return the program, built from Go's module registry the first time."""
    notice = "building kube-rbac-proxy, once: about five minutes on 2 cores"
    return go_program("kube-rbac-proxy", _SOURCE, package=_PACKAGE, notice=notice)


KUBE_RBAC_PROXY = Entry(
    "kube-rbac-proxy",
    "kube-rbac-proxy 0.22.1: cached token and access reviews, X-Remote-User; no impersonation,"
    " audit, metrics or log. With many connections it mostly pays for Go's default of two idle"
    " upstream connections (a new TLS connection for most requests): compare with one connection",
    _proxy,
    wanted="",
    impersonated_user=f"{CALLER} by X-Remote-User",
)
