"""A denial in the API server's words."""

from proxy.core.access_check import AccessCheck
from proxy.core.cut_text import cut_text
from proxy.core.errors import Forbidden
from proxy.core.evaluation import Denied
from proxy.core.go_quote import shown_quote
from proxy.core.status import without_html


def forbidden(denied: Denied) -> Forbidden:
    """Return the refusal that tells a client of a denial."""
    check = denied.first_failure
    if check is None:
        return Forbidden(denied.reason, details={})
    details = {"name": check.name, "group": check.group, "kind": check.resource}
    refusal = Forbidden(
        forbidden_message(check, denied.reason),
        details={key: cut_text(value) for key, value in details.items() if value},
    )
    refusal.failed_check = check_summary(check)
    return refusal


def check_summary(check: AccessCheck) -> str:
    """Return a check in few words: verb, resource (or path), and name and namespace if any."""
    if not check.is_resource:
        return f"{check.verb} {check.path}"
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    where = f" in {check.namespace}" if check.namespace else ""
    return f"{check.verb} {resource}{f' {check.name}' if check.name else ''}{where}"


def forbidden_message(check: AccessCheck, reason: str) -> str:
    """Return who may not do what, and why if the authorizer said so.

    Only the middle part is freed of markup; the prefix and the reason are not, as natively.
    """
    denial = without_html(
        f"User {shown_quote(check.user.name)} cannot {check.verb} {_object(check)}"
    )
    suffix = f": {reason}" if reason else ""
    return f"{_prefix(check)}forbidden: {denial}{suffix}"


def _prefix(check: AccessCheck) -> str:
    if not check.resource and not check.group:
        return ""
    resource = f"{check.resource}.{check.group}" if check.group else check.resource
    resource = cut_text(resource)
    return f"{resource} {shown_quote(check.name)} is " if check.name else f"{resource} is "


def _object(check: AccessCheck) -> str:
    if not check.is_resource:
        return f"path {shown_quote(check.path)}"
    resource = check.resource
    if check.subresource:
        resource = f"{resource}/{check.subresource}"
    scope = "at the cluster scope"
    if check.namespace:
        scope = f"in the namespace {shown_quote(check.namespace)}"
    return f"resource {shown_quote(resource)} in API group {shown_quote(check.group)} {scope}"
