"""What is the same in the events of requests that are equal, byte for byte."""

from typing import NamedTuple

from proxy.core.admission import Admission
from proxy.core.audit_policy import AuditPolicy, Recording


class EqualEvent(NamedTuple):
    """What plain events of equal requests have in common, as long as what they rest on is."""

    admission: Admission
    policy: AuditPolicy
    recording: Recording
    pattern: bytes
    """For the id, the code, two moments, the bytes of the answer, and the code once more."""
