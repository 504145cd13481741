"""Requests that kubectl sends together with a request, so that a grant can include them.

kubectl reads a pod before it opens a stream into it. It opens the stream by GET (WebSocket) and, if
that fails, by POST (SPDY). It reads an object before it patches it, and lists before it watches.
"""

from dataclasses import replace
from typing import NamedTuple

from proxy.core.requestinfo.request_info import RequestInfo

STREAM_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})
_READ_FIRST_SUBRESOURCES = STREAM_SUBRESOURCES | {"log"}
_STREAM_VERBS = ("get", "create")
_MODIFYING_VERBS = frozenset({"patch", "update"})


class CompanionRequest(NamedTuple):
    """A further request of the same kubectl command."""

    request_info: RequestInfo
    is_alternative: bool = False
    """kubectl sends it instead of the main request, so the target need not be allowed both."""


def companion_requests(request_info: RequestInfo) -> tuple[CompanionRequest, ...]:
    """Return what kubectl sends besides a request, without discovery."""
    if not request_info.is_resource:
        return ()
    if request_info.subresource in _READ_FIRST_SUBRESOURCES:
        return _pod_companions(request_info)
    if request_info.verb in _MODIFYING_VERBS and request_info.name:
        return (CompanionRequest(_with_verb(request_info, "get")),)
    if request_info.verb == "watch":
        # A watch of one object follows a get, a watch of a collection follows a list.
        verb = "get" if request_info.name else "list"
        return (CompanionRequest(_with_verb(request_info, verb)),)
    return ()


def _pod_companions(request_info: RequestInfo) -> tuple[CompanionRequest, ...]:
    found = []
    if request_info.subresource in STREAM_SUBRESOURCES:
        found = [
            CompanionRequest(_with_verb(request_info, verb), is_alternative=True)
            for verb in _STREAM_VERBS
            if verb != request_info.verb
        ]
    parent = replace(
        request_info,
        verb="get",
        subresource="",
        path=request_info.path.removesuffix(f"/{request_info.subresource}"),
    )
    return (*found, CompanionRequest(parent))


def _with_verb(request_info: RequestInfo, verb: str) -> RequestInfo:
    """Return the same object with another verb; only a collection has selectors."""
    return replace(request_info, verb=verb, fields=(), labels=())
