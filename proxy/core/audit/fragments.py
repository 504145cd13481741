"""The parts of events that many requests have in common, each made once.

What is remembered is bounded in number and in length, holds no header but the user agent, and says
nothing that an event would not say anyway.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from proxy.core.audit.annotations import annotations_template
from proxy.core.audit.event import (
    TimestampFormatter,
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
from proxy.core.truncation import NO_CUTS, BoundedText, Cuts
from proxy.core.userinfo import Caller

_MOST_REMEMBERED = 4096
_LONGEST_REMEMBERED = 512
# How many bytes one byte of a target may become: `<` is \u003c, and | in a path is %7C.
_LONGEST_ESCAPE = 6
_AGENT = b"user-agent"
_AGENT_LENGTH = len(_AGENT)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RequestFragments(NamedTuple):
    """What a request asks for, and the object it names."""

    request: str
    object_reference: str
    is_long_running: bool
    cuts: Cuts = NO_CUTS


class UserFragments(NamedTuple):
    """Who calls, and whom the caller becomes."""

    user: str
    decision: str
    annotations: str
    """A pattern, see `plain_annotations`; empty before a decision."""
    cuts: Cuts = NO_CUTS


class EventFragmentCache:
    """Remembers the parts of events."""

    def __init__(self, limits: EventLimits | None = None) -> None:
        self.limits = limits or EventLimits()
        self._requests: dict[tuple[bytes, bytes], RequestFragments] = {}
        self._people: dict[int, tuple[Permit | Caller, UserFragments]] = {}
        self._origins: dict[tuple[str, bytes], str] = {}
        self.timestamps = TimestampFormatter()

    def request(
        self, request_info: RequestInfo | None, method: bytes, target: bytes
    ) -> RequestFragments:
        """Return what a request asks for; the action must be the one read from method and target.

        Without an action nothing is known of the object, and nothing is remembered.
        """
        key = (method, target)
        known = self._requests.get(key)
        if known is None or request_info is None:
            asked = request_text(request_info, method, target, most=self.limits.uri_bytes)
            known = _pieces(request_info, asked)
            if request_info is not None and len(target) <= _LONGEST_REMEMBERED:
                _make_room(self._requests)
                self._requests[key] = known
        return known

    def unauthenticated_request(
        self, request_info: RequestInfo | None, method: bytes, target: bytes
    ) -> RequestFragments:
        """Return the same of a request that no known caller has made, which may say less.

        Nothing is remembered: the action may lack what its selectors say, and the pieces of an
        authenticated request for the same target must not.
        """
        most = self.limits.unauthenticated.uri
        if _LONGEST_ESCAPE * len(target) <= most:
            return _pieces(request_info, request_text(request_info, method, target, most=most))
        return _pieces(
            request_info, unauthenticated_request_text(request_info, method, target, most=most)
        )

    def people(self, known_by: Permit | Caller) -> UserFragments:
        """Return who calls and whom the caller becomes, as far as that is decided.

        Found by the very object, which is quicker than to compare all that is in it. It is kept
        with the texts, so that no other one can come by its place in memory meanwhile.
        """
        known = self._people.get(id(known_by))
        if known is not None and known[0] is known_by:
            return known[1]
        people = self._people_of(known_by)
        if len(people.user) + len(people.decision) <= 4 * _LONGEST_REMEMBERED:
            _make_room(self._people)
            self._people[id(known_by)] = (known_by, people)
        return people

    def _people_of(self, known_by: Permit | Caller) -> UserFragments:
        most = self.limits.user_bytes
        if isinstance(known_by, Permit):
            user = user_text(known_by.caller.user, path="user", most=most)
            decision = decision_text(known_by, most=most)
            annotations = annotations_template(known_by)
            return UserFragments(user.text, decision.text, annotations, user.cuts + decision.cuts)
        user = user_text(known_by.user, path="user", most=most)
        return UserFragments(user.text, "", "", user.cuts)

    def origin(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> str:
        """Return where a request came from, and by which program."""
        agent = b""
        for name, value in headers:
            if len(name) == _AGENT_LENGTH and name.lower() == _AGENT:
                agent = value
                break
        key = (address, agent)
        known = self._origins.get(key)
        if known is None:
            known = origin_text(source_ips(headers, address, trusts_peer=False), agent)
            if len(agent) <= _LONGEST_REMEMBERED:
                _make_room(self._origins)
                self._origins[key] = known
        return known


def _pieces(request_info: RequestInfo | None, asked: BoundedText) -> RequestFragments:
    named = object_text(request_info)
    is_long_running = request_info is not None and request_info.is_long_running
    return RequestFragments(asked.text, named.text, is_long_running, asked.cuts + named.cuts)


def _make_room(memory: dict[_Key, _Value]) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        memory.clear()
