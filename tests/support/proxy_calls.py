"""What an API server is asked by the proxy about itself: its rights, its tokens, the version.

These calls come whenever the proxy likes, so they are answered at once and kept apart from what
tests count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from proxy.upstream.health import USER_PREFIX

Document = dict[str, Any]
SELF_CHECKS = "/selfsubjectaccessreviews"
PUBLISHED_CAS = "/configmaps/extension-apiserver-authentication"


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
    grants_status: str = "201 Created"
    asked_rights: list[Document] = field(default_factory=list)
    canary_status: object = field(default_factory=lambda: {"allowed": False})
    answers_canaries: bool = True
    """Off: reviews about nobody are answered 500."""
    canaries: list[Document] = field(default_factory=list)
    published: object = None
    """The data of the ConfigMap with the cluster's CAs; None: there is no such ConfigMap."""
    published_reads: int = 0
    issues_tokens: bool = True
    token_seconds: float = 3600
    token_requests: list[str] = field(default_factory=list)

    @property
    def issued(self) -> int:
        """How many tokens were issued."""
        return len(self.token_requests)

    def concern(self, target: str) -> bool:
        """Tell whether a request without an identity is such a call."""
        return target == "/version" or target.endswith((SELF_CHECKS, "/token", PUBLISHED_CAS))

    def answer(self, target: str, asked: Document) -> tuple[str, Document]:
        """Return status and body."""
        if target == "/version":
            return self.version_status, self.version
        if target.endswith(PUBLISHED_CAS):
            self.published_reads += 1
            if self.published is None:
                return "404 Not Found", {"kind": "Status", "code": 404}
            return "200 OK", {"kind": "ConfigMap", "data": self.published}
        if target.endswith(SELF_CHECKS):
            attributes = asked["spec"]["resourceAttributes"]
            self.asked_rights.append(attributes)
            return self.grants_status, {**asked, "status": {"allowed": self.grants(attributes)}}
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
