"""The parts of events that many requests have in common, each made once.

What is remembered is bounded in number and in length, holds no header but the user agent, and says
nothing that an event would not say anyway.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.audit_annotations import plain_annotations
from proxy.core.audit_event import (
    Timestamps,
    decision_text,
    object_text,
    origin_text,
    request_text,
    source_ips,
    user_text,
)
from proxy.core.identity import Caller

_MOST_REMEMBERED = 4096
_LONGEST_REMEMBERED = 512
_AGENT = b"user-agent"
_AGENT_LENGTH = len(_AGENT)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RequestPieces(NamedTuple):
    """What a request asks for, and the object it names."""

    request: str
    object_reference: str
    is_long_running: bool


class PeoplePieces(NamedTuple):
    """Who calls, and whom the caller becomes."""

    user: str
    decision: str
    annotations: str
    """A pattern, see `plain_annotations`; empty before a decision."""


class AuditPieces:
    """Remembers the parts of events."""

    def __init__(self) -> None:
        self._requests: dict[tuple[bytes, bytes], RequestPieces] = {}
        self._people: dict[int, tuple[Admission | Caller, PeoplePieces]] = {}
        self._origins: dict[tuple[str, bytes], str] = {}
        self.timestamps = Timestamps()

    def request(self, action: Action | None, method: bytes, target: bytes) -> RequestPieces:
        """Return what a request asks for; the action must be the one read from method and target.

        Without an action nothing is known of the object, and nothing is remembered.
        """
        key = (method, target)
        known = self._requests.get(key)
        if known is None or action is None:
            known = RequestPieces(
                request_text(action, method, target),
                object_text(action),
                action is not None and action.is_long_running,
            )
            if action is not None and len(target) <= _LONGEST_REMEMBERED:
                _make_room(self._requests)
                self._requests[key] = known
        return known

    def people(self, known_by: Admission | Caller) -> PeoplePieces:
        """Return who calls and whom the caller becomes, as far as that is decided.

        Found by the very object, which is quicker than to compare all that is in it. It is kept
        with the texts, so that no other one can come by its place in memory meanwhile.
        """
        known = self._people.get(id(known_by))
        if known is not None and known[0] is known_by:
            return known[1]
        if isinstance(known_by, Admission):
            user, decision = user_text(known_by.caller.identity), decision_text(known_by)
            people = PeoplePieces(user, decision, plain_annotations(known_by))
        else:
            user, decision = user_text(known_by.identity), ""
            people = PeoplePieces(user, decision, "")
        if len(user) + len(decision) <= 4 * _LONGEST_REMEMBERED:
            _make_room(self._people)
            self._people[id(known_by)] = (known_by, people)
        return people

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


def _make_room(memory: dict[_Key, _Value]) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        memory.clear()
