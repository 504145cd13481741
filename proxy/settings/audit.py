"""The `audit` section: audit backends, policy file and size limits."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
)

from proxy.settings.types import (
    PATH_SCHEMA,
    Duration,
    FilePath,
    StrictModel,
    Timeout,
    parse_path,
)

AuditMode = Literal["batch", "blocking", "blocking-strict"]


def _read_log_path(value: object, info: ValidationInfo) -> Path:
    return Path("-") if value == "-" else parse_path(value, info)


class AuditLogSettings(StrictModel):
    """The log backend, which writes audit events to a file."""

    path: Annotated[Path, BeforeValidator(_read_log_path), PATH_SCHEMA] | None = None
    """File to which each audit.k8s.io/v1 event is appended as one line; `-` is standard output. A
    new file has mode 0600. Absent: no audit file."""

    mode: AuditMode = "blocking"
    """Behaviour when the disk is slow or fails. batch: events are lost when the buffer is full.
    blocking: requests also wait for up to five seconds while the disk is slow, and events are lost
    only while writing fails. blocking-strict: requests wait as well, and the client receives 500
    while writing fails."""

    buffer_size: PositiveInt = 10_000
    """Buffered events. When exceeded, further events are lost and counted. In both blocking modes
    requests wait from half of it on."""

    buffer_bytes: PositiveInt = 64 * 1024 * 1024
    """The same in bytes."""

    max_size_megabytes: NonNegativeInt = Field(default=100, alias="maxSize")
    """Megabytes of one file. Before it is exceeded, the file is renamed with a timestamp and a new
    one is started. A larger event gets its own file. 0: no rotation."""

    max_age_days: NonNegativeInt = Field(default=366, alias="maxAge")
    """Days after which rotated files are deleted. 0: never."""

    max_backups: NonNegativeInt = 100
    """Number of rotated files; the oldest are deleted. 0: no limit."""

    compress: bool = False
    """true: compress rotated files with gzip."""


class AuditWebhookSettings(StrictModel):
    """The webhook backend, which sends audit events to a receiver."""

    kubeconfig: FilePath | None = None
    """URL, CA and credential of the receiver, in the kubeconfig format of kube-apiserver's
    --audit-webhook-config-file. Reread once per minute and after failures. Absent: no webhook."""

    mode: AuditMode = "batch"
    """Behaviour when the receiver is slow or fails, as in `log`. Events are sent in batches in
    every mode."""

    buffer_size: PositiveInt = 10_000
    """Buffered events that the receiver has not accepted. When exceeded, further events are lost
    and counted."""

    buffer_bytes: PositiveInt = 64 * 1024 * 1024
    """The same in bytes."""

    batch_max_size: PositiveInt = 400
    """Events per call."""

    batch_max_wait_seconds: Duration = Field(default=30.0, alias="batchMaxWait")
    """Maximum time for which an event waits for its batch to fill."""

    throttle_qps: PositiveFloat = Field(default=10.0, alias="throttleQPS")
    """Sustained calls per second. When exceeded, further calls wait."""

    throttle_burst: PositiveInt = 15
    """Burst of calls."""

    initial_backoff_seconds: Timeout = Field(default=10.0, alias="initialBackoff")
    """Delay of the first retry of a call. Each further delay is 1.5 times as long, at most one
    minute. Only a call that the receiver rejects as a bad request is given up, after five
    attempts."""


LimitBytes = Annotated[int, Field(ge=512, le=1024 * 1024)]


class AuditLimitSettings(StrictModel):
    """Size limits of the values of one event, in bytes of JSON. Longer ones are cut and marked."""

    uri_bytes: LimitBytes = 16384
    """Bytes of the requestURI."""

    user_bytes: LimitBytes = 65536
    """Bytes of user and impersonatedUser, each with all groups and extras."""

    message_bytes: LimitBytes = 8192
    """Bytes of the responseStatus with its message."""

    unauthenticated_bytes: LimitBytes = 1024
    """Bytes of each of these in an event without an authenticated user, if it is less."""


class AuditSettings(StrictModel):
    """Audit events. Each event goes to every configured backend."""

    log: AuditLogSettings = AuditLogSettings()
    """The log backend, which writes audit events to a file."""

    webhook: AuditWebhookSettings = AuditWebhookSettings()
    """The webhook backend, which sends audit events to a receiver."""

    policy_file: FilePath | None = None
    """File with an audit.k8s.io/v1 Policy. Absent: every request at level Metadata, without the
    stage RequestReceived."""

    max_body_bytes: PositiveInt = 262144
    """Bytes of a request or response body. When exceeded, the body is not recorded."""

    limits: AuditLimitSettings = AuditLimitSettings()
    """Size limits of the values of one event."""
