"""The JSON fragments that many audit events have in common, and caches of them.

Cache entries are bounded in number and in length. They hold no header except the user agent, and
nothing that an event does not contain.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from proxy.core.audit.annotations import annotations_template
from proxy.core.audit.event import (
    decision_text,
    object_text,
    origin_text,
    request_text,
    source_ips,
    unauthenticated_request_text,
)
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.users import user_text
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.timestamps import TimestampFormatter
from proxy.core.truncation import NO_TRUNCATED_VALUES, BoundedText, TruncatedValues
from proxy.core.userinfo import Caller

_MAX_ENTRIES = 4096
_MAX_CACHED_BYTES = 512
# Largest number of bytes that one byte of a target becomes: `<` is \u003c, and | in a path is %7C.
_MAX_ESCAPED_BYTES = 6
_AGENT = b"user-agent"
_AGENT_LENGTH = len(_AGENT)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RequestFragments(NamedTuple):
    """The request URI and verb, and the object reference."""

    request: str
    object_reference: str
    is_long_running: bool
    cuts: TruncatedValues = NO_TRUNCATED_VALUES


class UserFragments(NamedTuple):
    """The caller and the impersonated user."""

    user: str
    decision: str
    annotations: str
    """A template, see `annotations_template`. Empty before a decision."""
    cuts: TruncatedValues = NO_TRUNCATED_VALUES


class EventFragmentCache:
    """Caches fragments of events by request, by user and by origin."""

    def __init__(self, limits: EventLimits | None = None) -> None:
        self.limits = limits or EventLimits()
        self._requests: dict[tuple[bytes, bytes], RequestFragments] = {}
        self._users: dict[int, tuple[Permit | Caller, UserFragments]] = {}
        self._origins: dict[tuple[str, bytes], str] = {}
        self.timestamps = TimestampFormatter()

    def request(
        self, request_info: RequestInfo | None, method: bytes, target: bytes
    ) -> RequestFragments:
        """Return the fragments of a request. Its info must be parsed from this method and target.

        Without a request info the object is unknown, and nothing is cached.
        """
        key = (method, target)
        known = self._requests.get(key)
        if known is None or request_info is None:
            uri_and_verb = request_text(
                request_info, method, target, max_bytes=self.limits.uri_bytes
            )
            known = _request_fragments(request_info, uri_and_verb)
            if request_info is not None and len(target) <= _MAX_CACHED_BYTES:
                _evict(self._requests)
                self._requests[key] = known
        return known

    def unauthenticated_request(
        self, request_info: RequestInfo | None, method: bytes, target: bytes
    ) -> RequestFragments:
        """Return the fragments of an unauthenticated request, to which stricter limits apply.

        Nothing is cached. The request info may lack its selectors, and the fragments of an
        authenticated request for the same target must include them.
        """
        most = self.limits.unauthenticated.uri
        if _MAX_ESCAPED_BYTES * len(target) <= most:
            return _request_fragments(
                request_info, request_text(request_info, method, target, max_bytes=most)
            )
        return _request_fragments(
            request_info, unauthenticated_request_text(request_info, method, target, max_bytes=most)
        )

    def users(self, decided: Permit | Caller) -> UserFragments:
        """Return the fragments of the caller, and of the impersonated user once it is decided.

        The cache key is the object's `id`, because comparing whole values is slower. The entry
        keeps the object alive, so that no other object can get the same id meanwhile.
        """
        known = self._users.get(id(decided))
        if known is not None and known[0] is decided:
            return known[1]
        fragments = self._user_fragments(decided)
        if len(fragments.user) + len(fragments.decision) <= 4 * _MAX_CACHED_BYTES:
            _evict(self._users)
            self._users[id(decided)] = (decided, fragments)
        return fragments

    def _user_fragments(self, known_by: Permit | Caller) -> UserFragments:
        most = self.limits.user_bytes
        if isinstance(known_by, Permit):
            user = user_text(known_by.caller.user, path="user", max_bytes=most)
            decision = decision_text(known_by, max_bytes=most)
            annotations = annotations_template(known_by)
            return UserFragments(
                user.text,
                decision.text,
                annotations,
                user.truncated_values + decision.truncated_values,
            )
        user = user_text(known_by.user, path="user", max_bytes=most)
        return UserFragments(user.text, "", "", user.truncated_values)

    def origin(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> str:
        """Return the fragment of the source addresses and the user agent."""
        agent = b""
        for name, value in headers:
            if len(name) == _AGENT_LENGTH and name.lower() == _AGENT:
                agent = value
                break
        key = (address, agent)
        known = self._origins.get(key)
        if known is None:
            known = origin_text(source_ips(headers, address, trusts_peer=False), agent)
            if len(agent) <= _MAX_CACHED_BYTES:
                _evict(self._origins)
                self._origins[key] = known
        return known


def _request_fragments(request_info: RequestInfo | None, request: BoundedText) -> RequestFragments:
    reference = object_text(request_info)
    is_long_running = request_info is not None and request_info.is_long_running
    return RequestFragments(
        request.text,
        reference.text,
        is_long_running,
        request.truncated_values + reference.truncated_values,
    )


def _evict(cache: dict[_Key, _Value]) -> None:
    if len(cache) >= _MAX_ENTRIES:
        cache.clear()
