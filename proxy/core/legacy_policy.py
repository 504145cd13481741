"""Who may still impersonate by the legacy verb, which is bound to no action."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.core.identity import Identity, service_account


class LegacyAction(StrEnum):
    """What becomes of a caller's legacy impersonation."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class LegacyRule:
    """An exception for callers named in any of its lists; service accounts as `namespace:name`."""

    action: LegacyAction
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    service_accounts: frozenset[str] = frozenset()

    def matches(self, caller: Identity) -> bool:
        """Tell whether the rule is about this caller."""
        if caller.name in self.users or not self.groups.isdisjoint(caller.groups):
            return True
        account = service_account(caller.name) if self.service_accounts else None
        return account is not None and ":".join(account) in self.service_accounts


@dataclass(frozen=True, slots=True)
class LegacyPolicy:
    """Rules in order, the first that matches wins, and what holds for everyone else."""

    default: LegacyAction = LegacyAction.ALLOW
    rules: tuple[LegacyRule, ...] = ()

    def action_for(self, caller: Identity) -> LegacyAction:
        """Return what becomes of this caller's legacy impersonation."""
        for rule in self.rules:
            if rule.matches(caller):
                return rule.action
        return self.default
