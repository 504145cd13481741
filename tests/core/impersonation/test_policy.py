import pytest

from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy, LegacyRule
from proxy.core.userinfo import UserInfo

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
        (UserInfo("bob", groups=("ops",)), LegacyAction.WARN),
        (UserInfo("alice", groups=("dev", "ops")), LegacyAction.ALLOW),
        (UserInfo("system:serviceaccount:ns:sa"), LegacyAction.ALLOW),
        (UserInfo("system:serviceaccount:ns:other"), LegacyAction.DENY),
        (UserInfo("ns:sa"), LegacyAction.DENY),
        (UserInfo("alice"), LegacyAction.DENY),
    ],
)
def test_the_first_rule_that_names_a_caller_wins(caller: UserInfo, action: LegacyAction) -> None:
    assert POLICY.action_for(caller) is action


def test_legacy_is_allowed_unless_configured_otherwise() -> None:
    assert LegacyPolicy().action_for(UserInfo("bob")) is LegacyAction.ALLOW
