"""The `upstream` section: the API server, and the proxy's identities there."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from proxy.settings.types import (
    FilePath,
    Server,
    StrictModel,
    Timeout,
    text_schema,
)

ExtraKey = Annotated[str, Field(min_length=1)]
_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def _parse_account(value: object) -> tuple[str, str]:
    if not isinstance(value, str) or _ACCOUNT.fullmatch(value) is None:
        raise ValueError("must be NAMESPACE:NAME of a service account")
    namespace, _, name = value.partition(":")
    return namespace, name


ServiceAccount = Annotated[
    tuple[str, str],
    BeforeValidator(_parse_account),
    text_schema(f"^{_ACCOUNT.pattern}$"),
]


class ReviewerSettings(StrictModel):
    """The reviewer: the identity that creates TokenReviews and SubjectAccessReviews."""

    kubeconfig: FilePath | None = None
    """Server, CA and credential of the reviewer. Absent: upstream.kubeconfig, or the pod's service
    account."""


class ForwarderSettings(StrictModel):
    """The forwarder: the identity that forwards requests, always with impersonation."""

    service_account: ServiceAccount | None = None
    """NAMESPACE:NAME of a service account. The reviewer requests tokens of this account and renews
    them before they expire. Absent: the credential of upstream.kubeconfig forwards. Without
    upstream.kubeconfig, in a pod, absent means understudy-forwarder in the pod's namespace."""

    same_as_reviewer: bool = False
    """true: use the reviewer's credential for forwarding as well, also in a pod."""


class UpstreamSettings(StrictModel):
    """The API server, and the proxy's identities there."""

    kubeconfig: FilePath | None = None
    """Server, CA and credential of the proxy. Absent: the pod's service account. It is reread every
    credentialRefresh. If the new one is invalid, the previous one stays in use. It is used for
    forwarding and for reviews, unless the sections below name other identities. The proxy logs if
    one identity does both."""

    reviewer: ReviewerSettings = ReviewerSettings()
    """The reviewer: the identity that creates TokenReviews and SubjectAccessReviews."""

    forwarder: ForwarderSettings = ForwarderSettings()
    """The forwarder: the identity that forwards requests, always with impersonation."""

    endpoints: tuple[Server, ...] = Field(default=(), strict=False)
    """API servers of one cluster as https://HOST[:PORT], instead of the address of the kubeconfig
    or the pod. The first reachable one is used; an unreachable one is tried last for five seconds.
    Only connecting fails over: a request that was sent is never sent to another server. All servers
    must have certificates of the same CA, for their own host names or for the kubeconfig's
    tls-server-name."""

    credential_refresh_seconds: Timeout = Field(default=10.0, alias="credentialRefresh")
    """Interval at which token, certificate and CA are reread. An exec plugin runs again one minute
    before its credential expires, and when the API server rejects it."""

    connect_timeout_seconds: Timeout = Field(default=5.0, alias="connectTimeout")
    """Deadline of connecting, for all endpoints together. Afterwards the client receives 503."""

    response_timeout_seconds: Timeout = Field(default=70.0, alias="responseTimeout")
    """Deadline of the response head. Afterwards the client receives 504. Watches, logs, exec and
    other long-running requests are exempt."""

    original_user_extra: bool = False
    """true: send the caller of an impersonated request to the API server, as extras under
    `original-user.kube-understudy.io/`. The forwarder then needs the verb impersonate on
    `userextras/original-user.kube-understudy.io/name`, `.../uid` and `.../groups`."""

    extras: Mapping[ExtraKey, Literal["forward", "drop", "refuse"]] = Field(default_factory=dict)
    """Treatment of single extras of the forwarded user (the caller or the impersonated user), by
    exact key: forward, drop, or refuse (the client receives 403). Other keys are forwarded. Access
    checks always contain all extras."""

    @model_validator(mode="after")
    def _check_forwarder(self) -> "UpstreamSettings":
        separate = self.forwarder.service_account or self.reviewer.kubeconfig
        if self.forwarder.same_as_reviewer and separate is not None:
            raise ValueError(
                "forwarder.sameAsReviewer contradicts forwarder.serviceAccount and "
                "reviewer.kubeconfig"
            )
        return self
