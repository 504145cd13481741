"""Settings: what happened, for auditors."""

from pydantic import PositiveInt

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

    policy_file: FilePath | None = None
    """An audit.k8s.io/v1 Policy. Absent: every request at Metadata, without RequestReceived."""

    body_bytes: PositiveInt = 262144
    """A request's or an answer's body that is longer is not recorded."""
