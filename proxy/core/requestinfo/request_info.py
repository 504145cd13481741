"""Request info: verb, resource and path of a request, exactly as kube-apiserver parses them."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from proxy.core.errors import BadRequest, RequestInfoError, TargetTooLong
from proxy.core.gocompat.quote import MAX_SHOWN_LENGTH, TRUNCATION_MARKER, go_quote, truncate_text
from proxy.core.gocompat.url import QueryParameter, first_value, request_uri, split_target
from proxy.core.http.headers import Header
from proxy.core.requestinfo.list_options import (
    DEFAULT_LIST_OPTIONS,
    DEFAULT_SELECTOR_TERMS,
    ListOptions,
    SelectorTooLarge,
    parse_list_options,
    parse_watch_option,
)
from proxy.core.requestinfo.selectors import FieldRequirement, LabelRequirement

_RESOURCE_VERBS = {
    b"GET": "get",
    b"HEAD": "get",
    b"POST": "create",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
    b"OPTIONS": "",
}
_PATH_VERBS = frozenset({"proxy", "watch"})
# Verbs that become list, watch or deletecollection if the path has no name.
_COLLECTION_VERBS = frozenset({"get", "delete"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_LONG_RUNNING_VERBS = frozenset({"watch", "proxy"})
_LONG_RUNNING_SUBRESOURCES = frozenset({"attach", "exec", "proxy", "log", "portforward"})
# Their parameters are commands, or belong to an application: of any length, and not parsed here.
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_MIN_CORE_PARTS = 3
_MIN_GROUP_PARTS = 4
_MAX_CACHED_TARGET_BYTES = 256
# A path can name group, version, verb, namespace, resource, name and subresource. The rest is not
# split, so that a path of slashes costs no more than any other.
_MAX_PATH_PARTS = 10
# Selectors with at most this number of terms are parsed before authentication, as kube-apiserver
# does. The audit event of a rejected request then names the object that the selector requires.
_PARTIAL_MAX_TERMS = 64

DEFAULT_TARGET_BYTES = 64 * 1024
"""The maximum length of a target, unless its parameters are not parsed."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The attributes that an authorizer evaluates, and the decoded path they were parsed from.

    Only verb and path are set for a non-resource request. `has_unparsed_selector` means that part
    of the request is not understood, so no decision about it may be reused.
    """

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    fields: tuple[FieldRequirement, ...] = ()
    labels: tuple[LabelRequirement, ...] = ()
    has_unparsed_selector: bool = False
    is_long_running: bool = field(init=False, repr=False, compare=False)
    """Whether the request is long-running: no deadline, and an audit event at its start."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Computed once, because the same few values are looked up at every request.
        object.__setattr__(self, "is_long_running", self._is_long_running())
        object.__setattr__(self, "_hash", hash((self.verb, self.path, self.labels, self.fields)))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    def _is_long_running(self) -> bool:
        if self.verb in _LONG_RUNNING_VERBS:
            return True
        if self.is_resource:
            return self.subresource in _LONG_RUNNING_SUBRESOURCES
        return self.path.startswith("/debug/pprof/")


class PartialRequestInfo(NamedTuple):
    """The request info as far as it is parsed before authentication.

    Unless it `is_complete`, selectors were not parsed, and neither was the name they may require.
    """

    request_info: RequestInfo
    is_complete: bool


def check_target_length(method: bytes, target: bytes, *, max_bytes: int) -> None:
    """Raise TargetTooLong for a long target, before anything parses all of it.

    An exec carries its command in the query, so the query of a connect request may have any length.
    """
    if len(target) <= max_bytes:
        return
    path = target.partition(b"?")[0]
    if len(path) <= max_bytes:
        request_info = _build_request_info(method, path, max_terms=None)
        if request_info.verb == "proxy" or request_info.subresource in _CONNECT_SUBRESOURCES:
            return
    raise TargetTooLong(f"the request target is longer than {max_bytes} bytes")


def parse_partial_request_info(method: bytes, target: bytes) -> PartialRequestInfo:
    """Parse the request info from a raw target, except for long selectors.

    Raises BadRequest for targets that the proxy never forwards. Raises kube-apiserver's own 500
    for targets that it cannot parse.
    """
    # Clients repeat their requests. Only short targets are cached, so that entries are small. A
    # RequestInfo is immutable, so sharing one between requests is safe.
    try:
        if len(target) <= _MAX_CACHED_TARGET_BYTES:
            return _cached_partial(method, target)
        return _parse_partial(method, target)
    except SelectorTooLarge:
        return PartialRequestInfo(
            _build_request_info(method, target, max_terms=None), is_complete=False
        )


def complete_request_info(
    parsed: PartialRequestInfo,
    method: bytes,
    target: bytes,
    *,
    max_terms: int = DEFAULT_SELECTOR_TERMS,
) -> RequestInfo:
    """Return the complete request info; SelectorTooLarge if a selector exceeds the limit."""
    if parsed.is_complete:
        return parsed.request_info
    return _build_request_info(method, target, max_terms=max_terms)


def parse_request_info(method: bytes, target: bytes) -> RequestInfo:
    """Parse the complete request info from a raw origin-form target."""
    return complete_request_info(parse_partial_request_info(method, target), method, target)


def _parse_partial(method: bytes, target: bytes) -> PartialRequestInfo:
    return PartialRequestInfo(
        _build_request_info(method, target, max_terms=_PARTIAL_MAX_TERMS), is_complete=True
    )


_cached_partial = lru_cache(maxsize=4096)(_parse_partial)


def _build_request_info(method: bytes, target: bytes, *, max_terms: int | None) -> RequestInfo:
    verb = _RESOURCE_VERBS.get(method)
    if verb is None:
        raise BadRequest("the request method is not supported")
    path, query = split_target(target)
    parts = path.strip("/").split("/", _MAX_PATH_PARTS)
    if not _is_resource(parts):
        return RequestInfo(method.decode("ascii").lower(), path)
    group, version, rest = _split_version(parts)
    if rest[0] in _PATH_VERBS:
        verb, *rest = rest
        if not rest:
            raise _unparsable_target(target)
    namespace, rest = _split_namespace(rest)
    resource, name, subresource = (*rest, "", "")[:3]
    options = DEFAULT_LIST_OPTIONS
    if not name and verb in _COLLECTION_VERBS:
        options = _list_options(query, max_terms)
        verb, name = _collection_verb(verb, options)
    return RequestInfo(
        verb,
        path,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource="" if verb == "proxy" else subresource,
        fields=options.fields or (),
        labels=options.labels or (),
        has_unparsed_selector=options.fields is None or options.labels is None,
    )


def _list_options(query: bytes, max_terms: int | None) -> ListOptions:
    if max_terms is None:
        return parse_watch_option(query)
    return parse_list_options(query, max_terms=max_terms)


def _is_resource(parts: list[str]) -> bool:
    if parts[0] == "api":
        return len(parts) >= _MIN_CORE_PARTS
    return parts[0] == "apis" and len(parts) >= _MIN_GROUP_PARTS


def _split_version(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[0] == "api":
        return "", parts[1], parts[2:]
    return parts[1], parts[2], parts[3:]


def _split_namespace(parts: list[str]) -> tuple[str, list[str]]:
    """Return the namespace and the path parts of the resource.

    A namespace object and its own subresources are the resource `namespaces` in that namespace.
    """
    if parts[0] != "namespaces" or len(parts) == 1:
        return "", parts
    following = parts[2:]
    if not following or following[0] in _NAMESPACE_SUBRESOURCES:
        return parts[1], parts
    return parts[1], following


def _collection_verb(verb: str, options: ListOptions) -> tuple[str, str]:
    if verb == "delete":
        return "deletecollection", ""
    return "watch" if options.is_watch else "list", options.name


def _unparsable_target(target: bytes) -> RequestInfoError:
    raw = go_quote(truncate_text(target.decode("utf-8", "surrogateescape")))
    uri = request_uri(target[:MAX_SHOWN_LENGTH])
    if len(target) > MAX_SHOWN_LENGTH:
        uri += TRUNCATION_MARKER
    return RequestInfoError(
        f"Internal Server Error: {raw}: failed to create RequestInfo: "
        f"unable to determine kind and namespace from url, {uri}"
    )


_LINE_MEDIA_TYPES = frozenset((b"application/json", b"text/plain"))
_TRUE_VALUES = frozenset(("true", "1"))
_FOLLOW = QueryParameter("follow")


def is_resumable_stream(request_info: RequestInfo, target: bytes) -> bool:
    """Return whether a client resumes this response after a clean end.

    In doubt it is False. A response with an end of its own must never be ended earlier, or a part
    of it would pass for the whole.
    """
    if request_info.verb == "watch":
        return True
    if request_info.resource != "pods" or request_info.subresource != "log":
        return False
    return first_value(target.partition(b"?")[2], _FOLLOW) in _TRUE_VALUES


def is_newline_delimited(headers: list[Header]) -> bool:
    """Return whether each message of a stream is a line: uncompressed JSON events and logs."""
    named = {name.lower(): value for name, value in headers}
    media_type = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return media_type in _LINE_MEDIA_TYPES and b"content-encoding" not in named


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
_COLLECTION_REQUEST_VERBS = frozenset({"list", "watch", "deletecollection"})


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A resource as listed by API discovery."""

    group: str
    version: str
    resource: str
    is_namespaced: bool


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A reference to an object or a collection of a resource; empty parts are unspecified."""

    namespace: str = ""
    name: str = ""
    subresource: str = ""


def request_info_for(verb: str, kind: ResourceKind, object_ref: ObjectRef) -> RequestInfo:
    """Return the request info as kube-apiserver parses it from the corresponding request.

    A verb that no request has (such as `use`) is kept unchanged.
    """
    target = _target(kind, object_ref)
    if object_ref.name and verb in _COLLECTION_REQUEST_VERBS:
        # A list of one object selects it by name, as `kubectl get pod NAME --watch` does.
        query = quote(f"metadata.name={object_ref.name}", safe="")
        target = f"{_target(kind, replace(object_ref, name=''))}?fieldSelector={query}"
    request_info = parse_request_info(_METHODS.get(verb, b"GET"), target.encode())
    return replace(request_info, verb=verb)


def _target(kind: ResourceKind, place: ObjectRef) -> str:
    root = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    within = ["namespaces", place.namespace] if kind.is_namespaced and place.namespace else []
    parts = [*root, *within, kind.resource]
    if place.name or place.subresource:
        # A subresource always belongs to an object; an empty name stands for any object.
        parts.append(place.name)
    if place.subresource:
        parts.append(place.subresource)
    return "".join(f"/{quote(part, safe='')}" for part in parts)
