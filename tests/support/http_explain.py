"""An action sent as the request that the API server reads it from."""

from dataclasses import replace
from urllib.parse import quote

from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import UserInfo
from tests.support.impersonation import Header, as_user

_METHODS = {
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "deletecollection": "DELETE",
}


def request_line(request_info: RequestInfo) -> tuple[str, str] | None:
    """Return method and target; None for what no request can do."""
    method = _METHODS.get(request_info.verb, request_info.verb.upper())
    target = _resource_target(request_info) if request_info.is_resource else request_info.path
    read = parse_request_info(method.encode(), target.encode())
    asked = replace(
        read, path=request_info.path, version=request_info.version, fields=(), labels=()
    )
    return (method, target) if asked == request_info else None


def headers_for(wanted_user: UserInfo) -> list[Header]:
    """Return the headers that ask for an identity."""
    extra = [(quote(key, safe=""), value) for key, values in wanted_user.extra for value in values]
    return as_user(
        wanted_user.name, groups=wanted_user.groups, uid=wanted_user.uid or None, extra=extra
    )


def _resource_target(request_info: RequestInfo) -> str:
    root = f"/apis/{request_info.group}/v1" if request_info.group else "/api/v1"
    namespace = f"/namespaces/{request_info.namespace}" if request_info.namespace else ""
    target = f"{root}{namespace}/{request_info.resource}"
    if request_info.verb in {"list", "watch"}:
        named = f"fieldSelector=metadata.name%3D{request_info.name}" if request_info.name else ""
        # Whoever may watch is not to wait for it.
        watched = "watch=1&timeoutSeconds=1" if request_info.verb == "watch" else ""
        return f"{target}?{'&'.join(part for part in (named, watched) if part)}"
    target += f"/{request_info.name}" if request_info.name else ""
    return f"{target}/{request_info.subresource}" if request_info.subresource else target
