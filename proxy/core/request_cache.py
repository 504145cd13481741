"""Cached results of processing one request head, reused for byte-identical requests.

`RequestHead.cache` refers to it. Equal heads of one connection share it, and it ends with that
connection. It holds no authority: the results of authentication and authorization carry a check
that is made on every use. Each slot has one writer, and an entry names the objects that it was
built from. Another object, even an equal one, is a miss, so a reload invalidates every entry.
"""

from typing import NamedTuple

from proxy.core.audit.fragments import EventFragmentCache
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.forwarding import ForwardingRules, OutboundHeadTemplate
from proxy.core.impersonation.permit import AuthorizationResult, Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import AuthenticationResult


class RequestResults(NamedTuple):
    """The results of the stages for a forwarded request; valid for one pipeline."""

    pipeline: object
    request_info: RequestInfo
    authentication: AuthenticationResult
    authorization: AuthorizationResult

    @property
    def is_reusable(self) -> bool:
        """Return whether both results can be checked again."""
        return self.authentication.recheck is not None and self.authorization.recheck is not None

    def recheck(self) -> bool:
        """Return whether an equal request would have the same caller and the same permit now."""
        is_same_caller, is_permitted = self.authentication.recheck, self.authorization.recheck
        if is_same_caller is None or is_permitted is None:
            return False
        return is_same_caller() and is_permitted()


class OutboundHead(NamedTuple):
    """A request head for the API server, and its inputs besides the client's request."""

    template: OutboundHeadTemplate
    identity_suffix: bytes
    permit: Permit
    authorization: bytes | None
    rules: ForwardingRules


class AccessLogTemplate(NamedTuple):
    """The constant members of the access log lines of equal requests; valid for one permit."""

    permit: Permit
    members: str


class EventTemplate(NamedTuple):
    """The last audit event of unremarkable equal requests; valid for one permit and its inputs."""

    permit: Permit
    audit_config: RequestAuditConfig
    """How much one policy records."""
    fragments: EventFragmentCache
    """The fragments of one set of limits."""
    parts: tuple[str, ...]
    """Between them are audit ID, status, two timestamps, response bytes, and the status again."""


class RequestCache:
    """One slot per component that caches a result."""

    __slots__ = ("access_log_template", "event_template", "outbound_head", "results")

    def __init__(self) -> None:
        # The other slots are filled only while this one is: a single request retains nothing.
        self.results: RequestResults | None = None
        self.outbound_head: OutboundHead | None = None
        self.access_log_template: AccessLogTemplate | None = None
        self.event_template: EventTemplate | None = None
