"""Settings: what happened, for auditors."""

from proxy.settings.audit_backends import AuditLogSettings, AuditWebhookSettings
from proxy.settings.strict import StrictModel


class AuditSettings(StrictModel):
    """What happened, for auditors."""

    log: AuditLogSettings = AuditLogSettings()
    """The audit trail as a file."""

    webhook: AuditWebhookSettings = AuditWebhookSettings()
    """The audit trail as calls of a receiver."""
