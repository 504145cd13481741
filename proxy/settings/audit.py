"""Settings: what happened, for auditors."""

from proxy.settings.strict import StrictModel
from proxy.settings.values import FilePath


class AuditLogSettings(StrictModel):
    """The audit trail as a file."""

    path: FilePath | None = None
    """One audit.k8s.io/v1 event a line is appended here. Absent: no audit file."""


class AuditSettings(StrictModel):
    """What happened, for auditors."""

    log: AuditLogSettings = AuditLogSettings()
    """The audit trail as a file."""
