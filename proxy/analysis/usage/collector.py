"""Impersonation usage, collected from audit events in bounded memory.

Memory does not depend on the length of the logs: there is one count for each identity and each
action of an impersonator, up to a limit. Identities and actions are counted separately because they
are granted separately: within one mode, each identity is allowed for each action.
"""

from dataclasses import dataclass, field

from proxy.analysis.usage.events import (
    ImpersonationEvent,
    ImpersonationReader,
    TruncatedEvent,
    UsedRequest,
    caller_groups,
)
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.userinfo import UserInfo

_MAX_TIMESTAMP_LENGTH = 40
_ENTRY_LENGTH = 512
"""Number of characters that count as one entry."""


@dataclass(slots=True)
class UsageCount:
    """Number of requests, by kind of permission."""

    legacy: int = 0
    constrained: int = 0
    forbidden: int = 0
    """Legacy requests for which the target itself lacked permission."""
    is_open: bool = False
    """A legacy request has started, whether or not its end was recorded."""

    @property
    def needs_grant(self) -> bool:
        """Return whether something would fail without legacy, unless it is granted."""
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
        """Add the counts of another instance."""
        self.legacy += other.legacy
        self.constrained += other.constrained
        self.forbidden += other.forbidden
        self.is_open = self.is_open or other.is_open


@dataclass(slots=True)
class NamespaceUsage:
    """Counts of an action by namespace. The empty namespace is all of them, or cluster scope."""

    counts: dict[str, UsageCount] = field(default_factory=dict)
    is_widened: bool = False
    """There were too many namespaces, so the action counts for all of them."""

    def widen(self) -> None:
        """Merge the counts of all namespaces."""
        total = UsageCount()
        for count in self.counts.values():
            total.merge(count)
        self.counts = {"": total}
        self.is_widened = True


@dataclass(slots=True)
class ModeUsage:
    """Identities and actions that an impersonator used, or would use, in one mode."""

    identities: dict[UserInfo, UsageCount] = field(default_factory=dict)
    actions: dict[UsedRequest, NamespaceUsage] = field(default_factory=dict)
    paths: int = 0
    """Number of actions on non-resource paths."""


@dataclass(slots=True)
class ImpersonatorUsage:
    """Usage of one impersonator. Modes are keyed by name, `none` if no mode applies."""

    groups: tuple[str, ...] = ()
    """The groups in its first event."""
    requests: UsageCount = field(default_factory=UsageCount)
    modes: dict[str, ModeUsage] = field(default_factory=dict)
    over_limit: int = 0
    """Requests with a new identity or action beyond the limit."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """Limits of what is counted separately."""

    entries: int = 50_000
    """Distinct impersonators, identities, and actions per namespace. Long ones count as several."""
    namespaces: int = 20
    """Distinct namespaces of one action. More count as all of them."""
    paths: int = 500
    """Distinct non-resource paths of one impersonator in a mode. Discovery needs only a few."""


class UsageCollector:
    """Counts the impersonations in a sequence of audit events."""

    def __init__(
        self,
        limits: UsageLimits | None = None,
        *,
        only: frozenset[str] = frozenset(),
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        """`only` and `excluded` are names of impersonators. An empty `only` means all of them."""
        self.limits = limits or UsageLimits()
        self._only = only
        self._left_out = excluded
        self._free_entries = self.limits.entries
        self._reader = ImpersonationReader()
        self.impersonators: dict[str, ImpersonatorUsage] = {}
        self.over_limit = 0
        """Requests of impersonators beyond the limit."""
        self.truncated = 0
        """Events with a truncated user, object or path."""
        self.first = self.last = ""
        """Timestamps of the first and the last of these requests."""

    def add(self, event: object) -> None:
        """Count an event if it is an impersonation. Raises InvalidAuditEvent."""
        if not isinstance(event, dict):
            raise InvalidAuditEvent
        try:
            seen = self._reader.read(event)
        except TruncatedEvent:
            self.truncated += 1
            return
        if seen is None or not self._is_selected(seen.caller):
            return
        self._record_time(seen.received_at)
        impersonator = self.impersonators.get(seen.caller)
        if impersonator is None:
            if not self._reserve(len(seen.caller) + sum(map(len, caller_groups(event)))):
                self.over_limit += seen.is_over
                return
            groups = caller_groups(event)
            impersonator = self.impersonators[seen.caller] = ImpersonatorUsage(groups)
        impersonator.requests.add(seen)
        use = impersonator.modes.get(seen.mode)
        if use is None:
            use = impersonator.modes[seen.mode] = ModeUsage()
        has_identity = self._count_identity(use, seen)
        has_action = self._count_action(use, seen)
        if seen.is_over and not (has_identity and has_action):
            impersonator.over_limit += 1

    def _is_selected(self, caller: str) -> bool:
        return caller not in self._left_out and (not self._only or caller in self._only)

    def _count_identity(self, use: ModeUsage, seen: ImpersonationEvent) -> bool:
        count = use.identities.get(seen.wanted_user)
        if count is None:
            if not self._reserve(_length(seen.wanted_user)):
                return False
            count = use.identities[seen.wanted_user] = UsageCount()
        count.add(seen)
        return True

    def _count_action(self, use: ModeUsage, seen: ImpersonationEvent) -> bool:
        namespaces = use.actions.get(seen.request_info)
        if namespaces is None:
            if not self._reserve_action(seen.request_info, use):
                return False
            use.paths += bool(seen.request_info.path)
            namespaces = use.actions[seen.request_info] = NamespaceUsage()
        where = "" if namespaces.is_widened else seen.namespace
        count = namespaces.counts.get(where)
        if count is None:
            if len(namespaces.counts) >= self.limits.namespaces:
                self._free_entries += len(namespaces.counts) - 1
                namespaces.widen()
                where = ""
            elif not self._reserve(len(where)):
                return False
            count = namespaces.counts.setdefault(where, UsageCount())
        count.add(seen)
        return True

    def _reserve_action(self, action: UsedRequest, use: ModeUsage) -> bool:
        if action.path and use.paths >= self.limits.paths:
            return False
        return self._reserve(sum(map(len, action)))

    def _reserve(self, length: int) -> bool:
        """Reserve space for a new entry, and return whether the limit allowed it."""
        needed = 1 + length // _ENTRY_LENGTH
        if needed > self._free_entries:
            return False
        self._free_entries -= needed
        return True

    def _record_time(self, timestamp: str) -> None:
        # Timestamps in this format sort as text.
        if timestamp > self.last:
            self.last = timestamp[:_MAX_TIMESTAMP_LENGTH]
        if timestamp and (timestamp < self.first or not self.first):
            self.first = timestamp[:_MAX_TIMESTAMP_LENGTH]


def _length(user: UserInfo) -> int:
    extras = sum(len(key) + sum(map(len, values)) for key, values in user.extra)
    return len(user.name) + len(user.uid) + sum(map(len, user.groups)) + extras
