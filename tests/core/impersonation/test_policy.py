import pytest

from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy, LegacyRule
from proxy.core.userinfo import Identity

POLICY = LegacyPolicy(
    LegacyAction.DENY,
    (
        LegacyRule(LegacyAction.WARN, users=frozenset({"bob"})),
        LegacyRule(LegacyAction.ALLOW, users=frozenset({"bob"}), groups=frozenset({"ops"})),
        LegacyRule(LegacyAction.ALLOW, service_accounts=frozenset({"ns:sa"})),
    ),
)


@pytest.mark.parametrize(
    ("caller", "action"),
    [
        (Identity("bob", groups=("ops",)), LegacyAction.WARN),
        (Identity("alice", groups=("dev", "ops")), LegacyAction.ALLOW),
        (Identity("system:serviceaccount:ns:sa"), LegacyAction.ALLOW),
        (Identity("system:serviceaccount:ns:other"), LegacyAction.DENY),
        (Identity("ns:sa"), LegacyAction.DENY),
        (Identity("alice"), LegacyAction.DENY),
    ],
)
def test_the_first_rule_that_names_a_caller_wins(caller: Identity, action: LegacyAction) -> None:
    assert POLICY.action_for(caller) is action


def test_legacy_is_allowed_unless_configured_otherwise() -> None:
    assert LegacyPolicy().action_for(Identity("bob")) is LegacyAction.ALLOW
