"""The servers of one half of the run: a reference and a subject on the same objects."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import NODE_AND_RBAC, ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, TokenUser, write_kubeconfig
from proxy.sandbox.objects import (
    apply,
    create_namespace,
    create_node,
    create_pod,
)
from proxy.sandbox.programs.binaries import Binaries
from tests.parity.cases import NAMESPACE, Half, RbacRule
from tests.parity.comparison import Judge
from tests.parity.proxy_side import ProxySide
from tests.parity.sides import Side, native_side
from tests.parity.webhook import Recording, RecordingWebhook, Rulebook
from tests.parity.wire import Credentials

NODES = ("node-1", "node-2")
POD = "web"
ACTING_ROLE = "parity-acting"
OTHER_NAMESPACE = "other"
TOKEN_GROUPS = ("testers", "dev")

_OLD_TERMINALS = "AuthorizePodWebsocketUpgradeCreatePermission=false"

_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
# What some of the impersonated may do, so that not every answer is a refusal. Writing is always
# a dry run here.
_ACTING_RULES = (
    RbacRule(("get", "list", "watch"), ("", "apps"), ("*",)),
    RbacRule(("create", "patch", "delete"), ("",), ("pods",)),
    RbacRule(("get",), paths=("/none", "/version")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Which two things are compared."""

    is_self: bool = False
    """A native server with another one, to see that the run itself finds no differences."""
    gate: bool = True
    """Constrained impersonation, natively and in the proxy."""
    upstream_gate: bool = False
    """Constrained impersonation in the server behind the proxy."""
    upstream_version: str | None = None
    """The version that the server behind the proxy emulates."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Both sides, and what it takes to give callers their rights there."""

    half: Half
    control_plane: ControlPlane
    servers: tuple[ApiServer, ApiServer]
    reference: Side
    subject: Side
    rulebook: Rulebook
    token_users: Iterator[TokenUser]
    proxy: ProxySide | None
    """None: both sides are native servers."""

    def judge(self) -> Judge:
        """Return who knows what may differ here."""
        protects = self.proxy is not None and self.proxy.protects_groups
        return Judge(is_proxied=self.proxy is not None, protects_groups=protects)


@dataclass(slots=True)
class Stage:
    """One etcd for a whole run. `arena` puts the two servers of a half on it."""

    control_plane: ControlPlane
    webhook: RecordingWebhook
    token_users: Iterator[TokenUser] = field(init=False)

    def __post_init__(self) -> None:
        self.token_users = iter(self.control_plane.token_users.values())

    @contextmanager
    def arena(self, half: Half, variant: Variant) -> Iterator[Arena]:
        """Start both sides, and end them."""
        name = f"{half}-{_describe(variant)}"
        recordings = [self._record(half, f"{name}-{role}") for role in ("reference", "subject")]
        servers = self.control_plane.start_api_servers(
            self._reference_options(f"{name}-reference", recordings[0], variant),
            self._subject_options(f"{name}-subject", recordings[1], variant),
        )
        reference, behind = servers
        _furnish(reference.admin)
        admin = Credentials(self.control_plane.admin, ca_pem=self.webhook.ca_pem)
        proxy = None
        with ExitStack() as cleanup:
            for server in servers:
                cleanup.callback(server.stop)
            if variant.is_self:
                subject = cleanup.enter_context(native_side(behind, recordings[1], admin))
            else:
                proxy = ProxySide(
                    self.control_plane, behind, recordings[1], constrained=variant.gate
                )
                subject = cleanup.enter_context(proxy).side()
            yield Arena(
                half=half,
                control_plane=self.control_plane,
                servers=(reference, behind),
                reference=cleanup.enter_context(native_side(reference, recordings[0], admin)),
                subject=subject,
                rulebook=self.webhook.rulebook,
                token_users=self.token_users,
                proxy=proxy,
            )

    def _record(self, half: Half, name: str) -> Recording | None:
        return self.webhook.record(name) if half is Half.WEBHOOK else None

    def _reference_options(
        self, name: str, recording: Recording | None, variant: Variant
    ) -> ApiServerOptions:
        options = self._options(name, recording, gate=variant.gate)
        if variant.upstream_version == "1.34":
            # Whether the impersonated may open a terminal by GET is the affair of the server
            # behind the proxy, and 1.34 judged it as servers had before.
            return replace(options, extra_flags=(f"--feature-gates={_OLD_TERMINALS}",))
        return options

    def _subject_options(
        self, name: str, recording: Recording | None, variant: Variant
    ) -> ApiServerOptions:
        if variant.upstream_version is not None:
            # It brings its own setting of the gate, and 1.34 knows no such gate at all.
            options = self._options(name, recording, gate=None)
            return replace(options, emulated_version=variant.upstream_version)
        gate = variant.gate if variant.is_self else variant.upstream_gate
        return self._options(name, recording, gate=gate)

    def _options(
        self, name: str, recording: Recording | None, *, gate: bool | None
    ) -> ApiServerOptions:
        authorization = NODE_AND_RBAC
        if recording is not None:
            file = _write_authorization(self.control_plane.directory, name, recording, self.webhook)
            authorization = (f"--authorization-config={file}",)
        return ApiServerOptions(
            name=name,
            constrained_impersonation=gate,
            authorization=authorization,
            audit_policy=_AUDIT_POLICY,
        )


@contextmanager
def running_stage(binaries: Binaries, *, token_users: int) -> Iterator[Stage]:
    """Start what both halves share."""
    users = [_token_user(number) for number in range(token_users)]
    with (
        ControlPlane(binaries, token_users=users) as control_plane,
        RecordingWebhook(control_plane.servers) as webhook,
    ):
        yield Stage(control_plane, webhook)


def _token_user(number: int) -> TokenUser:
    # As long as a fresh name, so that nothing depends on which of the two it is.
    name = f"tokenuser-t{number:08d}"
    return TokenUser(name, "token-uid", TOKEN_GROUPS, BearerToken(f"token-of-{name}"))


def _describe(variant: Variant) -> str:
    words = ["self" if variant.is_self else "proxy", "on" if variant.gate else "off"]
    if variant.upstream_gate:
        words.append("upstream")
    if variant.upstream_version:
        words.append(variant.upstream_version)
    return "-".join(words)


def _furnish(admin: ApiClient) -> None:
    """Put the objects there that requests are about."""
    for namespace in (NAMESPACE, OTHER_NAMESPACE):
        create_namespace(admin, namespace)
    for node in NODES:
        create_node(admin, node)
    create_pod(admin, NAMESPACE, POD, node=NODES[0], labels={"app": "web"})
    rules = [rule.manifest() for rule in _ACTING_RULES]
    metadata = {"name": ACTING_ROLE}
    version = "rbac.authorization.k8s.io/v1"
    apply(
        admin,
        {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
    )


def _write_authorization(
    directory: Path, name: str, recording: Recording, webhook: RecordingWebhook
) -> Path:
    """Write a configuration in which the webhook decides about everyone but the proxy itself."""
    kubeconfig = write_kubeconfig(
        directory / f"webhook-{name}.yaml",
        url=recording.url,
        ca_pem=webhook.ca_pem,
        credential=None,
    )
    authorizer = {
        "type": "Webhook",
        "name": "recorder",
        "webhook": {
            "authorizedTTL": "1s",
            "cacheAuthorizedRequests": False,
            "unauthorizedTTL": "1s",
            "cacheUnauthorizedRequests": False,
            "timeout": "10s",
            "subjectAccessReviewVersion": "v1",
            "matchConditionSubjectAccessReviewVersion": "v1",
            "failurePolicy": "NoOpinion",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
            # Neither of its identities, nor the canary whom it asks about at times.
            "matchConditions": [{"expression": "!request.user.startsWith('understudy-')"}],
        },
    }
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [authorizer, {"type": "RBAC", "name": "rbac"}],
    }
    path = directory / f"authorization-{name}.json"
    path.write_text(json.dumps(document))
    return path
