"""What an API server is asked by the proxy about itself: its rights, its tokens, the version.

These calls come whenever the proxy likes, so they are answered at once and kept apart from what
tests count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from proxy.upstream.canary import USER_PREFIX

Document = dict[str, Any]
SELF_CHECKS = "/selfsubjectaccessreviews"


def is_needed(attributes: Document) -> bool:
    """Grant the least that one identity for everything needs."""
    reviews = ("tokenreviews", "subjectaccessreviews")
    return attributes["verb"] == "impersonate" or attributes["resource"] in reviews


@dataclass(slots=True)
class OwnCalls:
    """How such calls are answered, and which came."""

    version: Document = field(default_factory=lambda: {"major": "1", "minor": "37+"})
    version_status: str = "200 OK"
    grants: Callable[[Document], bool] = is_needed
    canary_status: object = field(default_factory=lambda: {"allowed": False})
    canaries: list[Document] = field(default_factory=list)
    issues_tokens: bool = True
    token_seconds: float = 3600
    token_requests: list[str] = field(default_factory=list)

    @property
    def issued(self) -> int:
        """How many tokens were issued."""
        return len(self.token_requests)

    def concern(self, target: str) -> bool:
        """Tell whether a request without an identity is such a call."""
        return target == "/version" or target.endswith((SELF_CHECKS, "/token"))

    def answer(self, target: str, asked: Document) -> tuple[str, Document]:
        """Return status and body."""
        if target == "/version":
            return self.version_status, self.version
        if target.endswith(SELF_CHECKS):
            allowed = self.grants(asked["spec"]["resourceAttributes"])
            return "201 Created", {**asked, "status": {"allowed": allowed}}
        if not self.issues_tokens:
            return "403 Forbidden", {"kind": "Status", "code": 403}
        self.token_requests.append(target)
        expires = datetime.now(UTC) + timedelta(seconds=self.token_seconds)
        status = {
            "token": f"issued-{self.issued}",
            "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return "201 Created", {**asked, "status": status}

    def is_canary(self, review: Document) -> bool:
        """Tell whether a review asks about nobody."""
        user: str = review.get("spec", {}).get("user", "")
        return user.startswith(USER_PREFIX)

    def canary(self, review: Document) -> Document:
        """Answer such a review."""
        self.canaries.append(review["spec"])
        return {**review, "status": self.canary_status}
