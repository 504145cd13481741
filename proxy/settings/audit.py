"""Settings: what happened, for auditors."""

from pydantic import PositiveInt

from proxy.settings.audit_backends import AuditLogSettings, AuditWebhookSettings
from proxy.settings.strict import StrictModel
from proxy.settings.values import FilePath


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
