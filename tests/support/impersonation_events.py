"""Audit events of impersonated requests, as the usage analysis reads them."""

from typing import Any

from proxy.analysis.usage.collector import UsageCollector, UsageLimits
from proxy.core.audit.annotations import DOMAIN
from proxy.core.truncation import format_truncated_values, truncated_value

NODE_KEY = "authentication.kubernetes.io/node-name"


def event(  # noqa: PLR0913 - each a part of an event
    target: str = "alice",
    *,
    caller: str = "bob",
    groups: tuple[str, ...] = ("system:authenticated",),
    constraint: str = "",
    stage: str = "ResponseComplete",
    code: int = 200,
    verb: str = "list",
    uri: str = "/api/v1/pods",
    **more: Any,
) -> dict[str, Any]:
    """Return an event. `ref`, `user` and `became` add to its parts, other names replace parts."""
    reference = {"resource": "pods", **more.pop("ref", {})}
    made: dict[str, Any] = {
        "kind": "Event",
        "stage": stage,
        "verb": verb,
        "requestURI": uri,
        "user": {"username": caller, **more.pop("user", {})},
        "impersonatedUser": {"username": target, "groups": list(groups), **more.pop("became", {})},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": "2026-11-16T04:00:00.000000Z",
        **more,
    }
    if reference["resource"]:
        made["objectRef"] = reference
    if constraint:
        made["authenticationMetadata"] = {"impersonationConstraint": constraint}
    return made


def truncation_of(path: str) -> dict[str, str]:
    """Return the annotations of an event that is truncated at a path."""
    return {
        "audit.k8s.io/truncated": "true",
        f"{DOMAIN}/truncated": format_truncated_values([truncated_value(path, "x")]),
    }


def usage_of(*events: object, limits: UsageLimits | None = None) -> UsageCollector:
    """Return the usage that these events add up to."""
    usage = UsageCollector(limits)
    for one in events:
        usage.add(one)
    return usage
