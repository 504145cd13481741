"""Settings: what happened, for auditors."""

from typing import Annotated

from pydantic import Field, PositiveInt

from proxy.settings.audit_backends import AuditLogSettings, AuditWebhookSettings
from proxy.settings.strict import StrictModel
from proxy.settings.values import FilePath

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

    body_bytes: PositiveInt = 262144
    """A request's or an answer's body that is longer is not recorded."""

    limits: AuditLimitSettings = AuditLimitSettings()
    """How long the values of one event may be."""
