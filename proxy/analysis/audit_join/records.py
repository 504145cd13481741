"""One request in one of the two audit logs, merged from the events of its stages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from proxy.core.audit.annotations import DOMAIN, read_event_cuts
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.truncation import InvalidTruncatedValues, TruncatedValue, is_truncated_from

Event = Mapping[str, object]

_LAST_STAGES = frozenset(("ResponseComplete", "Panic"))
_FIRST_ERROR = 400
_DENIED = 403
_FIRST_SERVER_ERROR = 500
_FIRST_STAGE = "RequestReceived"
# Reviews that the proxy creates as itself: about callers, and about itself. They change nothing.
_OWN_REVIEWS = frozenset(
    (
        "tokenreviews",
        "subjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    )
)
# A request of the reviewer, which is also the forwarder if both share one account.
_OWN_REQUEST = ("get", "/version")


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Record of a request. Timestamps are kept as text in UTC, which sorts correctly."""

    audit_id: str
    received_at: str
    user: str
    target: str | None
    """The impersonated user, or None without impersonation."""
    constraint: str | None
    verb: str
    uri: str
    object_text: str
    """The object for display: `pods/log web/hello`, or the path."""
    code: int | None
    is_decided: bool
    """A stage after the first was seen. If it has no impersonated user, there is none."""
    is_complete: bool
    is_review: bool
    """A review that the proxy creates as itself."""
    upstream_code: str = ""
    """In the proxy's log: the API server's code that the proxy replaced or relayed."""
    truncated_uri: TruncatedValue | None = None
    """The truncation of the URI, if any. Only the proxy's log truncates."""
    truncated_impersonated_user: TruncatedValue | None = None
    """The truncation of the name of the effective user, if any."""

    @property
    def is_over(self) -> bool:
        """Return whether no event need follow. A failed authentication has only one event."""
        return self.is_complete or (self.is_decided and (self.code or 0) >= _FIRST_ERROR)

    @property
    def impersonated_user(self) -> str:
        """The effective user of the request."""
        return self.user if self.target is None else self.target

    def has_uri_of(self, cluster: "AuditRecord") -> bool:
        """Return whether both records have the same URI. This one may have only its digest."""
        if self.truncated_uri is not None:
            return is_truncated_from(self.truncated_uri, cluster.uri)
        return self.uri == cluster.uri

    def acts_as(self, name: str | None) -> bool:
        """Return whether a name is the effective user of this record."""
        if self.truncated_impersonated_user is not None:
            return name is not None and is_truncated_from(self.truncated_impersonated_user, name)
        return self.impersonated_user == name

    def lacked_proxy_permission(self, cluster: "AuditRecord", *, max_skew_seconds: float) -> bool:
        """Return whether the cluster's record is the denied impersonation of this request.

        The API server denies the proxy's user before it changes to the impersonated user, so the
        cluster's record has none. A stolen credential leaves no record in the proxy's log that the
        API server responded 403 to the same request at the same time.
        """
        return (
            cluster.target is None
            and (cluster.code, self.upstream_code) == (_DENIED, str(_DENIED))
            and (self.code or 0) >= _FIRST_SERVER_ERROR
            and self.verb == cluster.verb
            and self.has_uri_of(cluster)
            and _seconds_between(self.received_at, cluster.received_at) <= max_skew_seconds
        )

    def merge(self, later: "AuditRecord") -> "AuditRecord":
        """Return both stages merged. The later one takes precedence."""
        keeps_target = later.target is None and self.target is not None
        return replace(
            later,
            user=later.user or self.user,
            target=self.target if keeps_target else later.target,
            truncated_impersonated_user=self.truncated_impersonated_user
            if keeps_target
            else later.truncated_impersonated_user,
            constraint=later.constraint or self.constraint,
            upstream_code=later.upstream_code or self.upstream_code,
            code=later.code if later.code is not None else self.code,
            is_decided=self.is_decided or later.is_decided,
            is_complete=self.is_complete or later.is_complete,
        )


def read_record(event: object) -> AuditRecord:
    """Return the record of one event, or raise InvalidAuditEvent."""
    if not isinstance(event, dict):
        raise InvalidAuditEvent
    stage, audit_id = _text(event, "stage"), _text(event, "auditID")
    if event.get("kind", "Event") != "Event" or not stage or not audit_id:
        raise InvalidAuditEvent
    annotations = _mapping(event, "annotations")
    try:
        cuts = read_event_cuts(annotations)
    except InvalidTruncatedValues as error:
        raise InvalidAuditEvent from error
    impersonated = _mapping(event, "impersonatedUser")
    metadata = _mapping(event, "authenticationMetadata")
    code = _mapping(event, "responseStatus").get("code")
    reference = _mapping(event, "objectRef")
    verb = _text(event, "verb")
    return AuditRecord(
        audit_id=audit_id,
        received_at=_text(event, "requestReceivedTimestamp"),
        user=_text(_mapping(event, "user"), "username"),
        target=_text(impersonated, "username") if impersonated else None,
        constraint=_text(metadata, "impersonationConstraint") or None,
        verb=verb,
        uri=_text(event, "requestURI"),
        object_text=_object_text(reference) or _text(event, "requestURI").partition("?")[0],
        code=code if isinstance(code, int) else None,
        is_decided=stage != _FIRST_STAGE,
        is_complete=stage in _LAST_STAGES,
        is_review=(verb == "create" and reference.get("resource") in _OWN_REVIEWS)
        or (verb, _text(event, "requestURI")) == _OWN_REQUEST,
        upstream_code=_text(annotations, f"{DOMAIN}/upstream-code"),
        truncated_uri=cuts.get("requestURI"),
        truncated_impersonated_user=cuts.get(
            f"{'impersonatedUser' if impersonated else 'user'}.username"
        ),
    )


def read_time(event: object) -> float:
    """Return the event's timestamp in seconds since 1970, or raise InvalidAuditEvent."""
    if not isinstance(event, dict):
        raise InvalidAuditEvent
    try:
        return datetime.fromisoformat(_text(event, "stageTimestamp")).timestamp()
    except ValueError as error:
        raise InvalidAuditEvent from error


def _seconds_between(one: str, other: str) -> float:
    """Return the distance of two timestamps; infinite if one is invalid."""
    try:
        return abs((datetime.fromisoformat(one) - datetime.fromisoformat(other)).total_seconds())
    except (ValueError, TypeError):
        return float("inf")


def _object_text(reference: Mapping[str, object]) -> str:
    if not (resource := _text(reference, "resource")):
        return ""
    kind = "/".join(filter(None, (resource, _text(reference, "subresource"))))
    place = "/".join(filter(None, (_text(reference, "namespace"), _text(reference, "name"))))
    return f"{kind} {place}".rstrip()


def _mapping(event: Event, name: str) -> Mapping[str, object]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
