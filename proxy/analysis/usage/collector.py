"""Who acted as whom, for what and by which right: gathered from audit events in bounded memory.

A log may be as long as it likes: what is kept is one count for each impersonator's identity and for
each of its actions, up to a bound. Identities and actions are kept apart because grants keep them
apart, too: within one mode each identity goes with each action.
"""

from dataclasses import dataclass, field

from proxy.analysis.usage.events import (
    ImpersonationEvent,
    ImpersonationReader,
    InvalidAuditEvent,
    TruncatedEvent,
    UsedRequest,
    caller_groups,
)
from proxy.core.userinfo import UserInfo

_LONGEST_TIME = 40
_UNIT = 512
"""So many characters take the room of one entry."""


@dataclass(slots=True)
class UsageCount:
    """How often, by which right."""

    legacy: int = 0
    constrained: int = 0
    forbidden: int = 0
    """Of those by legacy, the ones that the target itself was not allowed."""
    is_open: bool = False
    """One by legacy has begun, whether or not its end was seen."""

    @property
    def needs_grant(self) -> bool:
        """Tell whether something would stop working without legacy, unless it is granted."""
        return self.is_open or self.legacy > self.forbidden

    def add(self, seen: ImpersonationEvent) -> None:
        """Count one event."""
        if not seen.is_legacy:
            self.constrained += seen.is_over
        elif seen.is_over:
            self.legacy += 1
            self.forbidden += seen.is_forbidden
        elif not seen.is_forbidden:
            self.is_open = True

    def merge(self, other: "UsageCount") -> None:
        """Count all that another one has counted."""
        self.legacy += other.legacy
        self.constrained += other.constrained
        self.forbidden += other.forbidden
        self.is_open = self.is_open or other.is_open


@dataclass(slots=True)
class NamespaceUsage:
    """Where an action was done: by namespace, of which the empty one is all of them, or none."""

    counts: dict[str, UsageCount] = field(default_factory=dict)
    is_widened: bool = False
    """They were too many to be kept apart, so that the action counts for all namespaces."""

    def widen(self) -> None:
        """Keep them apart no longer."""
        total = UsageCount()
        for count in self.counts.values():
            total.merge(count)
        self.counts = {"": total}
        self.is_widened = True


@dataclass(slots=True)
class ModeUsage:
    """What somebody used, or would use, in one mode."""

    identities: dict[UserInfo, UsageCount] = field(default_factory=dict)
    actions: dict[UsedRequest, NamespaceUsage] = field(default_factory=dict)
    paths: int = 0
    """How many of the actions are on paths of no resource."""


@dataclass(slots=True)
class ImpersonatorUsage:
    """Everything about one user who acted as others; modes by name, `none` for what has none."""

    groups: tuple[str, ...] = ()
    """As its first event says."""
    requests: UsageCount = field(default_factory=UsageCount)
    modes: dict[str, ModeUsage] = field(default_factory=dict)
    beyond: int = 0
    """Requests with something new that the bound left no room for."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """What is kept apart, and how much of it."""

    entries: int = 50_000
    """Distinct impersonators, identities and actions by namespace; long ones count as several."""
    namespaces: int = 20
    """Namespaces of one action that are kept apart; more count as all of them."""
    paths: int = 500
    """Distinct paths of no resource that one impersonator used in a mode; discovery is few."""


class UsageCollector:
    """Takes events one by one and keeps what they add up to."""

    def __init__(
        self,
        limits: UsageLimits | None = None,
        *,
        only: frozenset[str] = frozenset(),
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        """`only` and `left_out` name impersonators; nobody in `only` means everybody."""
        self.limits = limits or UsageLimits()
        self._only = only
        self._left_out = left_out
        self._room = self.limits.entries
        self._reader = ImpersonationReader()
        self.impersonators: dict[str, ImpersonatorUsage] = {}
        self.beyond = 0
        """Requests of impersonators that the bound left no room for."""
        self.truncated = 0
        """Events that hold only a part of who acted as whom, or on what."""
        self.first = self.last = ""
        """When the first and the last of these requests came."""

    def add(self, event: object) -> None:
        """Count an event, if somebody acted as somebody else; InvalidAuditEvent if it is none."""
        if not isinstance(event, dict):
            raise InvalidAuditEvent
        try:
            seen = self._reader.read(event)
        except TruncatedEvent:
            self.truncated += 1
            return
        if seen is None or not self._is_meant(seen.caller):
            return
        self._note_time(seen.received_at)
        somebody = self.impersonators.get(seen.caller)
        if somebody is None:
            if not self._takes_room(len(seen.caller) + sum(map(len, caller_groups(event)))):
                self.beyond += seen.is_over
                return
            groups = caller_groups(event)
            somebody = self.impersonators[seen.caller] = ImpersonatorUsage(groups)
        somebody.requests.add(seen)
        use = somebody.modes.get(seen.mode)
        if use is None:
            use = somebody.modes[seen.mode] = ModeUsage()
        has_identity = self._count_identity(use, seen)
        has_action = self._count_action(use, seen)
        if seen.is_over and not (has_identity and has_action):
            somebody.beyond += 1

    def _is_meant(self, caller: str) -> bool:
        return caller not in self._left_out and (not self._only or caller in self._only)

    def _count_identity(self, use: ModeUsage, seen: ImpersonationEvent) -> bool:
        count = use.identities.get(seen.wanted_user)
        if count is None:
            if not self._takes_room(_length(seen.wanted_user)):
                return False
            count = use.identities[seen.wanted_user] = UsageCount()
        count.add(seen)
        return True

    def _count_action(self, use: ModeUsage, seen: ImpersonationEvent) -> bool:
        places = use.actions.get(seen.request_info)
        if places is None:
            if not self._has_room_for(seen.request_info, use):
                return False
            use.paths += bool(seen.request_info.path)
            places = use.actions[seen.request_info] = NamespaceUsage()
        where = "" if places.is_widened else seen.namespace
        count = places.counts.get(where)
        if count is None:
            if len(places.counts) >= self.limits.namespaces:
                self._room += len(places.counts) - 1
                places.widen()
                where = ""
            elif not self._takes_room(len(where)):
                return False
            count = places.counts.setdefault(where, UsageCount())
        count.add(seen)
        return True

    def _has_room_for(self, action: UsedRequest, use: ModeUsage) -> bool:
        if action.path and use.paths >= self.limits.paths:
            return False
        return self._takes_room(sum(map(len, action)))

    def _takes_room(self, length: int) -> bool:
        """Tell whether something new still has its place, and take it."""
        needed = 1 + length // _UNIT
        if needed > self._room:
            return False
        self._room -= needed
        return True

    def _note_time(self, moment: str) -> None:
        # Times as they are written sort as text.
        if moment > self.last:
            self.last = moment[:_LONGEST_TIME]
        if moment and (moment < self.first or not self.first):
            self.first = moment[:_LONGEST_TIME]


def _length(user: UserInfo) -> int:
    extras = sum(len(key) + sum(map(len, values)) for key, values in user.extra)
    return len(user.name) + len(user.uid) + sum(map(len, user.groups)) + extras
