"""One request as one of the two audit logs tells it, put together from the events of its stages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from proxy.core.audit.annotations import read_event_cuts
from proxy.core.truncation import Cut, UnreadableCuts, is_cut_from

Event = Mapping[str, object]

_LAST_STAGES = frozenset(("ResponseComplete", "Panic"))
_FIRST_ERROR = 400
_FIRST_STAGE = "RequestReceived"
# What we ask in our own name: about callers, and about ourselves. None of it changes anything.
_OWN_REVIEWS = frozenset(
    (
        "tokenreviews",
        "subjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    )
)
# By the reviewer, which is the forwarder too where there is one account for both.
_OWN_QUESTION = ("get", "/version")


class InvalidAuditEvent(Exception):
    """A line is not an event of a request."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What is known of a request. Times are as written, in UTC, so that they sort as text."""

    audit_id: str
    received_at: str
    user: str
    target: str | None
    """Whom the request was carried out as, where that is not the user."""
    constraint: str | None
    verb: str
    uri: str
    thing: str
    """What it was done to, for people: `pods/log web/hello`, or the path."""
    code: int | None
    is_decided: bool
    """A later stage than the first was seen: if nobody is impersonated by then, nobody is."""
    is_complete: bool
    is_review: bool
    """One of the questions that the proxy asks in its own name."""
    cut_uri: Cut | None = None
    """Of what the URI is the beginning, if it is not whole. Only our log cuts."""
    truncated_impersonated_user: Cut | None = None
    """The same of the name of whom the request was carried out as."""

    @property
    def is_over(self) -> bool:
        """Tell whether nothing need follow; of a failed login there is one event alone."""
        return self.is_complete or (self.is_decided and (self.code or 0) >= _FIRST_ERROR)

    @property
    def impersonated_user(self) -> str:
        """Whom the request was carried out as."""
        return self.user if self.target is None else self.target

    def has_uri_of(self, cluster: "AuditRecord") -> bool:
        """Return whether both are about one URI, of which this side may have the digest alone."""
        if self.cut_uri is not None:
            return is_cut_from(self.cut_uri, cluster.uri)
        return self.uri == cluster.uri

    def acts_as(self, name: str | None) -> bool:
        """Return whether this is whom the request was carried out as, as this side tells it."""
        if self.truncated_impersonated_user is not None:
            return name is not None and is_cut_from(self.truncated_impersonated_user, name)
        return self.impersonated_user == name

    def merge(self, later: "AuditRecord") -> "AuditRecord":
        """Return what both stages together tell; the later one knows better."""
        keeps_target = later.target is None and self.target is not None
        return replace(
            later,
            user=later.user or self.user,
            target=self.target if keeps_target else later.target,
            truncated_impersonated_user=self.truncated_impersonated_user
            if keeps_target
            else later.truncated_impersonated_user,
            constraint=later.constraint or self.constraint,
            code=later.code if later.code is not None else self.code,
            is_decided=self.is_decided or later.is_decided,
            is_complete=self.is_complete or later.is_complete,
        )


def read_record(event: object) -> AuditRecord:
    """Return what one event tells; InvalidAuditEvent for what is none."""
    if not isinstance(event, dict):
        raise InvalidAuditEvent
    stage, audit_id = _text(event, "stage"), _text(event, "auditID")
    if event.get("kind", "Event") != "Event" or not stage or not audit_id:
        raise InvalidAuditEvent
    try:
        cuts = read_event_cuts(_mapping(event, "annotations"))
    except UnreadableCuts as error:
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
        thing=_thing(reference) or _text(event, "requestURI").partition("?")[0],
        code=code if isinstance(code, int) else None,
        is_decided=stage != _FIRST_STAGE,
        is_complete=stage in _LAST_STAGES,
        is_review=(verb == "create" and reference.get("resource") in _OWN_REVIEWS)
        or (verb, _text(event, "requestURI")) == _OWN_QUESTION,
        cut_uri=cuts.get("requestURI"),
        truncated_impersonated_user=cuts.get(
            f"{'impersonatedUser' if impersonated else 'user'}.username"
        ),
    )


def read_time(event: object) -> float:
    """Return when an event was written, in seconds since 1970, or fail with InvalidAuditEvent."""
    if not isinstance(event, dict):
        raise InvalidAuditEvent
    try:
        return datetime.fromisoformat(_text(event, "stageTimestamp")).timestamp()
    except ValueError as error:
        raise InvalidAuditEvent from error


def _thing(reference: Mapping[str, object]) -> str:
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
