"""Settings: the API server behind us, and who we are there."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from proxy.settings.types import (
    FilePath,
    Server,
    StrictModel,
    Timeout,
    as_text,
)

ExtraKey = Annotated[str, Field(min_length=1)]
_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def _read_account(value: object) -> tuple[str, str]:
    if not isinstance(value, str) or _ACCOUNT.fullmatch(value) is None:
        raise ValueError("must be NAMESPACE:NAME of a service account")
    namespace, _, name = value.partition(":")
    return namespace, name


ServiceAccount = Annotated[
    tuple[str, str],
    BeforeValidator(_read_account),
    as_text(f"^{_ACCOUNT.pattern}$"),
]


class ReviewerSettings(StrictModel):
    """Who asks the API server about callers: reviews, and nothing else."""

    kubeconfig: FilePath | None = None
    """Server, CA and credential of who asks. Absent: as `upstream.kubeconfig`."""


class ForwarderSettings(StrictModel):
    """Who carries requests out, always as somebody else."""

    service_account: ServiceAccount | None = None
    """As NAMESPACE:NAME. Requests are forwarded with a token of this account, which the reviewer
    asks for and renews before it expires. Absent: with the credential of `upstream.kubeconfig`, and
    without that one, in a pod, with a token of understudy-forwarder in the pod's namespace."""

    same_as_reviewer: bool = False
    """On: who asks also forwards, with one credential for both, even in a pod."""


class UpstreamSettings(StrictModel):
    """The API server behind us, and who we are there."""

    kubeconfig: FilePath | None = None
    """Server, CA and credential of our own identity. Absent: the pod's service account. All of it
    is read again from time to time; what cannot be used leaves the old one in force. It forwards
    requests, and it asks for reviews, unless one of the two has an identity of its own, below. One
    identity for both is reported in the log."""

    reviewer: ReviewerSettings = ReviewerSettings()
    """Who asks the API server about callers: reviews, and nothing else."""

    forwarder: ForwarderSettings = ForwarderSettings()
    """Who carries requests out, always as somebody else."""

    endpoints: tuple[Server, ...] = Field(default=(), strict=False)
    """API servers of one cluster as https://HOST[:PORT], in place of the one address of the
    kubeconfig or the pod. The first that can be reached is used; one that cannot is tried last
    for five seconds. Only connecting fails over: a request that was sent is never sent to another
    server. All must be known by the same CA, and by tls-server-name if the kubeconfig has one."""

    credential_refresh_seconds: Timeout = Field(default=10.0, alias="credentialRefresh")
    """Longest time a rotated token, certificate or CA goes unnoticed. A credential of an exec
    plugin is asked for anew a minute before it expires, and when the API server refuses it."""

    connect_timeout_seconds: Timeout = Field(default=5.0, alias="connectTimeout")
    """After this long without a connection the client is told 503; all endpoints share it."""

    response_timeout_seconds: Timeout = Field(default=70.0, alias="responseTimeout")
    """After this long without an answer's head the client is told 504. Watches, logs, exec and
    the like have no such limit."""

    original_user_extra: bool = False
    """On: an impersonated request names its caller to the API server, in extras under
    `original-user.kube-understudy.io/`. Our own identity then needs the verb impersonate on
    `userextras/original-user.kube-understudy.io/name`, `.../uid` and `.../groups`."""

    extras: Mapping[ExtraKey, Literal["forward", "drop", "refuse"]] = Field(default_factory=dict)
    """What becomes of an extra, by its key, in the identity a request is forwarded as: the
    caller's own or an impersonated one. Keys that are not named are forwarded. Access reviews see
    all extras."""

    @model_validator(mode="after")
    def _who_forwards_is_clear(self) -> "UpstreamSettings":
        apart = self.forwarder.service_account or self.reviewer.kubeconfig
        if self.forwarder.same_as_reviewer and apart is not None:
            raise ValueError(
                "forwarder.sameAsReviewer contradicts forwarder.serviceAccount and "
                "reviewer.kubeconfig"
            )
        return self
