"""Settings: what happened, for auditors."""

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
    PATH_TEXT,
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
    """The audit trail as a file."""

    path: Annotated[Path, BeforeValidator(_read_log_path), PATH_TEXT] | None = None
    """One audit.k8s.io/v1 event a line is appended here; `-` is standard output. A new file is
    ours alone to read, 0600. Absent: no audit file."""

    mode: AuditMode = "blocking"
    """When the disk cannot keep up: batch loses what the buffer cannot hold; blocking lets
    requests wait while it is slow, at most five seconds, and loses only while it fails;
    blocking-strict lets them wait as well, and answers 500 while it fails."""

    buffer_size: PositiveInt = 10_000
    """Events in memory that are not written yet; more are lost, and counted. In both blocking
    modes requests wait from the half on."""

    buffer_bytes: PositiveInt = 64 * 1024 * 1024
    """The same in bytes."""

    max_size_megabytes: NonNegativeInt = Field(default=100, alias="maxSize")
    """A file that would grow beyond this many megabytes is put aside under its name with the time
    in it, and a new one begun. A bigger event has a file of its own. 0: never."""

    max_age_days: NonNegativeInt = Field(default=366, alias="maxAge")
    """Files put aside are deleted after this many days. 0: never."""

    max_backups: NonNegativeInt = 100
    """Of the files put aside only this many are kept. 0: all."""

    compress: bool = False
    """Files put aside are compressed with gzip."""


class AuditWebhookSettings(StrictModel):
    """The audit trail as calls of a receiver."""

    kubeconfig: FilePath | None = None
    """URL, CA and credential of the receiver, in the form of a kubeconfig as kube-apiserver's
    --audit-webhook-config-file. Read again once a minute and after failures. Absent: no calls."""

    mode: AuditMode = "batch"
    """When the receiver cannot keep up, as in `log`. Events are sent in batches in every mode."""

    buffer_size: PositiveInt = 10_000
    """Events in memory that the receiver has not accepted yet; more are lost, and counted."""

    buffer_bytes: PositiveInt = 64 * 1024 * 1024
    """The same in bytes."""

    batch_max_size: PositiveInt = 400
    """Events sent in one call."""

    batch_max_wait_seconds: Duration = Field(default=30.0, alias="batchMaxWait")
    """Longest time an event waits for others to fill its call."""

    throttle_qps: PositiveFloat = Field(default=10.0, alias="throttleQPS")
    """Calls per second in the long run."""

    throttle_burst: PositiveInt = 15
    """Calls at once after a quiet time."""

    initial_backoff_seconds: Timeout = Field(default=10.0, alias="initialBackoff")
    """How long the first retry of a call waits; each further one half as long again, at most
    a minute. Only calls that the receiver itself calls bad requests are given up, after five."""


LimitBytes = Annotated[int, Field(ge=512, le=1024 * 1024)]


class AuditLimitSettings(StrictModel):
    """How long the values of one event may be, in bytes of JSON. A longer one is cut and marked."""

    uri_bytes: LimitBytes = 16384
    """The requestURI."""

    user_bytes: LimitBytes = 65536
    """The user, and the impersonatedUser: each with all groups and extras."""

    message_bytes: LimitBytes = 8192
    """The responseStatus with its message."""

    unauthenticated_bytes: LimitBytes = 1024
    """Each of these in an event without an authenticated user, where it is less."""


class AuditSettings(StrictModel):
    """What happened, for auditors."""

    log: AuditLogSettings = AuditLogSettings()
    """The audit trail as a file."""

    webhook: AuditWebhookSettings = AuditWebhookSettings()
    """The audit trail as calls of a receiver."""

    policy_file: FilePath | None = None
    """An audit.k8s.io/v1 Policy. Absent: every request at Metadata, without RequestReceived."""

    max_body_bytes: PositiveInt = 262144
    """A request's or an answer's body that is longer is not recorded."""

    limits: AuditLimitSettings = AuditLimitSettings()
    """How long the values of one event may be."""
