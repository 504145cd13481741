"""Who is calling, asked at two doors: the API server's own, and the proxy's before it.

One API server with many CAs and anonymous paths, and a proxy that is told the same. What both tell
is a whole SelfSubjectReview, or the whole refusal.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import FRONT_PROXY_NAME, ControlPlane
from proxy.sandbox.identities import BearerToken, CertificateAuthority, Credential
from proxy.sandbox.objects import (
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.chain_table import ROOTS as CHAIN_ROOTS
from tests.support.chains import CN, FOR_SERVERS, Issuer, Window
from tests.support.forging import pem_of

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
OPEN_PATHS = ["/livez", "/healthz"]
Lines = tuple[tuple[str | bytes, str | bytes], ...]
OVER = Window(-3, -2)

STALE_ROOT = Issuer("stale root", window=OVER)
SERVERS_ROOT = Issuer("servers' root", usages=FOR_SERVERS)
SHORT_ROOT = Issuer("short root", path_length=0)
UNSEEN_ROOT = Issuer("unseen root")
MIDDLE_ANCHOR = Issuer("middle anchor", UNSEEN_ROOT)
MORE_ROOTS = (STALE_ROOT, SERVERS_ROOT, SHORT_ROOT, MIDDLE_ANCHOR)


def issuing(authority: CertificateAuthority) -> Issuer:
    """Return the authority as one that signs odd things, too."""
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    (name,) = certificate.subject.get_attributes_for_oid(CN)
    return Issuer(str(name.value), key=authority._key)


@dataclass(frozen=True)
class Stage:
    """Two doors, and who can certify."""

    native: ApiServer
    ours: ProxyProcess
    clients: Issuer
    front_proxies: Issuer
    tokens: Mapping[str, BearerToken] = field(default_factory=dict)

    def both(
        self,
        credential: Credential,
        headers: Lines = (),
        *,
        method: str = "POST",
        path: str = REVIEWS,
    ) -> tuple[Any, Any]:
        """Return what is told at both doors, ours first."""
        ours, native = (
            told(door.client(credential), headers, method, path)
            for door in (self.ours, self.native)
        )
        return ours, native


def told(client: ApiClient, headers: Lines, method: str, path: str) -> Any:
    body = REVIEW if method == "POST" else None
    response = client.request(method, path, headers=headers, body=body)
    if response.header("Content-Type") != "application/json":
        return response.status, response.body
    document = response.json()
    return response.status, document["status"]["userInfo"] if response.status == 201 else document


@contextmanager
def running_api_server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """Run an API server that believes many CAs, with a store of its own."""
    directory = control_plane.directory
    bundle = directory / "many-client-cas.crt"
    bundle.write_bytes(
        b"".join(
            [
                control_plane.clients.certificate_pem,
                *(root.pem for root in MORE_ROOTS),
                pem_of(*CHAIN_ROOTS),
            ]
        )
    )
    configuration = directory / "anonymous.yaml"
    conditions = [f"{{path: {path}}}" for path in OPEN_PATHS]
    configuration.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
        f"anonymous: {{enabled: true, conditions: [{', '.join(conditions)}]}}\n"
    )
    options = ApiServerOptions(
        name="callers",
        etcd_prefix="/callers",
        extra_flags=(f"--client-ca-file={bundle}", f"--authentication-config={configuration}"),
    )
    with closing(control_plane.start_api_server(options)) as server:
        # Else whoever is not authenticated could not ask who it is.
        ask = {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["create"],
        }
        everybody = {"kind": "Group", "name": "system:unauthenticated"}
        grant(server.admin, "ask-who-one-is", rules=[ask], to=everybody)
        yield server


@contextmanager
def running_proxy(control_plane: ControlPlane, api_server: ApiServer) -> Iterator[ProxyProcess]:
    """Run a proxy before it that believes the same."""
    directory = control_plane.directory
    authentication = {
        "clientCertificate": {"caFile": str(directory / "many-client-cas.crt")},
        "frontProxy": {
            "caFile": str(directory / "front-proxy-ca.crt"),
            "allowedNames": [FRONT_PROXY_NAME],
        },
        "anonymous": {"enabled": True, "paths": OPEN_PATHS},
    }
    settings = {"authentication": authentication}
    with ProxyProcess(
        control_plane, api_server, settings=settings, components=["all-extras"]
    ) as running:
        yield running


@contextmanager
def running_stage(control_plane: ControlPlane) -> Iterator[Stage]:
    """Open both doors."""
    with (
        running_api_server(control_plane) as api_server,
        running_proxy(control_plane, api_server) as understudy,
    ):
        yield Stage(
            api_server,
            understudy,
            issuing(control_plane.clients),
            issuing(control_plane.front_proxies),
            tokens_of(control_plane, api_server.admin),
        )


def tokens_of(control_plane: ControlPlane, admin: ApiClient) -> dict[str, BearerToken]:
    """Mint tokens of every kind, good and bad."""
    create_namespace(admin, "callers")
    create_node(admin, "node-1")
    create_service_account(admin, "callers", "agent")
    pod = create_pod(admin, "callers", "agent-pod", node="node-1", service_account="agent")
    return {
        "of a service account": token_for(admin, "callers", "agent"),
        "bound to a pod": token_for(admin, "callers", "agent", pod=pod),
        "for somebody else": token_for(admin, "callers", "agent", audiences=["elsewhere"]),
        "of a user": control_plane.token_users["alice"].token,
        "of a user without groups": control_plane.token_users["carol"].token,
        "nobody's": BearerToken("nonsense"),
        "cut": BearerToken(token_for(admin, "callers", "agent").value[:-5]),
    }


def bearer(stage: Stage, name: str) -> tuple[str, str]:
    """Return the header that shows a token."""
    return ("Authorization", f"Bearer {stage.tokens[name].value}")
