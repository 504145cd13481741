"""An action sent as the request that the API server reads it from."""

from dataclasses import replace
from urllib.parse import quote

from proxy.core.requestinfo.request_info import Action, parse_action
from proxy.core.userinfo import Identity
from tests.support.impersonation import Header, as_user

_METHODS = {
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "deletecollection": "DELETE",
}


def request_line(action: Action) -> tuple[str, str] | None:
    """Return method and target; None for what no request can do."""
    method = _METHODS.get(action.verb, action.verb.upper())
    target = _resource_target(action) if action.is_resource else action.path
    read = parse_action(method.encode(), target.encode())
    asked = replace(read, path=action.path, version=action.version, fields=(), labels=())
    return (method, target) if asked == action else None


def headers_for(wanted: Identity) -> list[Header]:
    """Return the headers that ask for an identity."""
    extra = [(quote(key, safe=""), value) for key, values in wanted.extra for value in values]
    return as_user(wanted.name, groups=wanted.groups, uid=wanted.uid or None, extra=extra)


def _resource_target(action: Action) -> str:
    root = f"/apis/{action.group}/v1" if action.group else "/api/v1"
    namespace = f"/namespaces/{action.namespace}" if action.namespace else ""
    target = f"{root}{namespace}/{action.resource}"
    if action.verb in {"list", "watch"}:
        named = f"fieldSelector=metadata.name%3D{action.name}" if action.name else ""
        # Whoever may watch is not to wait for it.
        watched = "watch=1&timeoutSeconds=1" if action.verb == "watch" else ""
        return f"{target}?{'&'.join(part for part in (named, watched) if part)}"
    target += f"/{action.name}" if action.name else ""
    return f"{target}/{action.subresource}" if action.subresource else target
