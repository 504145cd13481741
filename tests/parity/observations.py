"""What one request brought about on one side, in words that both sides share."""

import json
from dataclasses import dataclass
from typing import Any

from proxy.sandbox.api_client import APIResponse
from tests.parity.audit_tail import Event
from tests.parity.webhook import Review

_FAILURE = 400
_SHOWN_HEADERS = (
    "Audit-Id",
    "Cache-Control",
    "Content-Type",
    "Retry-After",
    "Warning",
    "Www-Authenticate",
    "X-Content-Type-Options",
)
_AUDITED = ("user", "impersonatedUser", "authenticationMetadata", "verb", "objectRef")
_DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that is compared of one request."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Of a failure only: what succeeds is the API server's own affair."""
    ran_as: str
    """The identity that the API server authorized, as JSON; empty if it came to that nowhere."""
    audit: tuple[tuple[str, str], ...]
    """Fields of the event as JSON; empty without an event."""
    closes: bool = False
    """The server hangs up after this answer."""
    reviews: tuple[Review, ...] = ()

    @property
    def content_type(self) -> str:
        """What the body claims to be."""
        return dict(self.headers).get("Content-Type", "")

    @property
    def message(self) -> str:
        """The message of the Status, or the text of an answer that is none."""
        if self.content_type == "application/json" and self.body:
            return str(json.loads(self.body).get("message", ""))
        return self.body.decode("utf-8", "replace")

    def audited(self, field: str) -> Any:
        """Return a field of the audit event, None if it is not there."""
        text = dict(self.audit).get(field, "null")
        return json.loads(text)


def observe(
    response: APIResponse,
    *,
    event: Event | None,
    behind: Event | None,
    reviews: tuple[Review, ...],
) -> Observation:
    """Put together what was seen of one request. `behind` is the event that says whom it ran as."""
    headers = ((name, response.header(name)) for name in _SHOWN_HEADERS)
    return Observation(
        status=response.status,
        headers=tuple((name, value) for name, value in headers if value is not None),
        body=response.body if response.status >= _FAILURE else b"",
        ran_as=_ran_as(behind),
        audit=tuple((name, _as_json((event or {}).get(name))) for name in _AUDITED)
        if event
        else (),
        closes=(response.header("Connection") or "").lower() == "close",
        reviews=reviews,
    )


def is_audited(response: APIResponse, audit_id: str) -> bool:
    """Tell whether a server writes an event under this id about a request it answered like this.

    It does not before it knows what is asked: refusals of its HTTP library, and targets it cannot
    make sense of. These are the ones that it says in plain text.
    """
    if response.header("Audit-Id") != audit_id:
        return False
    is_text = (response.header("Content-Type") or "").startswith("text/plain")
    return not (is_text and b"failed to create RequestInfo" in response.body)


def _ran_as(event: Event | None) -> str:
    if event is None or _DECISION not in event.get("annotations", {}):
        return ""
    return _as_json(event.get("impersonatedUser") or event["user"])


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
