"""The settings of a decision, as the values the core decides by."""

from proxy.core.impersonation_headers import ImpersonationLimits
from proxy.core.legacy_policy import LegacyAction, LegacyPolicy, LegacyRule
from proxy.core.plan import DecisionRules
from proxy.settings.impersonation import ImpersonationSettings


def decision_rules(settings: ImpersonationSettings) -> DecisionRules:
    """Return the switches that change a decision."""
    return DecisionRules(
        constrained=settings.constrained,
        legacy=LegacyPolicy(
            LegacyAction(settings.legacy.default),
            tuple(
                LegacyRule(
                    LegacyAction(rule.action),
                    users=frozenset(rule.users),
                    groups=frozenset(rule.groups),
                    service_accounts=frozenset(rule.service_accounts),
                )
                for rule in settings.legacy.rules
            ),
        ),
        protected_groups=frozenset(settings.protected_groups),
        recalls_legacy=settings.legacy_ttl_seconds > 0,
        upgrade_needs_create=settings.upgrade_needs_create,
    )


def impersonation_limits(settings: ImpersonationSettings) -> ImpersonationLimits:
    """Return how much identity one request may ask for."""
    limits = settings.limits
    return ImpersonationLimits(
        groups=limits.groups,
        extra_values=limits.extra_values,
        value_bytes=limits.value_bytes,
    )
