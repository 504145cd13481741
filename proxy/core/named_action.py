"""An action named as people name it: a verb and a resource, not a method and a path."""

from dataclasses import dataclass, replace
from urllib.parse import quote

from proxy.core.action import Action, parse_action

_METHODS = {
    "get": b"GET",
    "list": b"GET",
    "watch": b"GET",
    "create": b"POST",
    "update": b"PUT",
    "patch": b"PATCH",
    "delete": b"DELETE",
    "deletecollection": b"DELETE",
}
_OF_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A resource as discovery tells it."""

    group: str
    version: str
    resource: str
    is_namespaced: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Which object or collection of a resource is meant; empty parts are not named."""

    namespace: str = ""
    name: str = ""
    subresource: str = ""


def named_action(verb: str, kind: ResourceKind, place: Place) -> Action:
    """Return the action as the API server reads it from the request that people mean.

    A verb that no request has (such as `use`) is taken as it is.
    """
    target = _target(kind, place)
    if place.name and verb in _OF_COLLECTIONS:
        # A list of one object is a list by its name, as `kubectl get pod NAME --watch` asks for it.
        query = quote(f"metadata.name={place.name}", safe="")
        target = f"{_target(kind, replace(place, name=''))}?fieldSelector={query}"
    action = parse_action(_METHODS.get(verb, b"GET"), target.encode())
    return replace(action, verb=verb)


def _target(kind: ResourceKind, place: Place) -> str:
    root = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    within = ["namespaces", place.namespace] if kind.is_namespaced and place.namespace else []
    parts = [*root, *within, kind.resource]
    if place.name or place.subresource:
        # A subresource always has an object; one without a name is any.
        parts.append(place.name)
    if place.subresource:
        parts.append(place.subresource)
    return "".join(f"/{quote(part, safe='')}" for part in parts)
