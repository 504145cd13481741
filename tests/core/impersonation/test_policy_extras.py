"""Which extras go upstream."""

import pytest

from proxy.core.errors import Forbidden
from proxy.core.http.headers import impersonation_header_lines
from proxy.core.impersonation.checks import Attempt, ImpersonationRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import (
    NAME_KEY,
    IdentityRestrictions,
    permit_impersonation,
    permit_self,
)
from proxy.core.impersonation.policy import ExtraPolicy
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo, make_extra

POLICY = ExtraPolicy(dropped=frozenset({"a.io/drop"}), rejected=frozenset({"a.io/refuse"}))
BOB = Caller(UserInfo("bob"))


def with_extras(*keys: str) -> UserInfo:
    return UserInfo("alice", "7", ("dev",), make_extra(dict.fromkeys(keys, ("1", "2"))))


def allowed(impersonated_user: UserInfo) -> Allowed:
    attempt = Attempt(
        ImpersonationMode.USER_INFO,
        BOB.user,
        impersonated_user,
        RequestInfo("get", "/"),
        ImpersonationRules(),
    )
    return Allowed(attempt, impersonated_user)


def test_a_dropped_key_stays_here_with_all_its_values_and_the_rest_goes_on() -> None:
    restrictions = IdentityRestrictions(extras=POLICY)
    user = with_extras("a.io/drop", "a.io/other")

    itself = permit_self(Caller(user), restrictions=restrictions)
    impersonated = permit_impersonation(BOB, allowed(user), restrictions=restrictions)

    for permit in (itself, impersonated):
        assert permit.user == with_extras("a.io/other")
        assert b"drop" not in repr(impersonation_header_lines(permit.user)).encode().lower()


def test_what_is_dropped_is_still_the_callers() -> None:
    caller = Caller(with_extras("a.io/drop"))

    assert permit_self(caller, restrictions=IdentityRestrictions(extras=POLICY)).caller == caller


def test_a_refused_key_goes_nowhere() -> None:
    restrictions = IdentityRestrictions(extras=POLICY)
    user = with_extras("a.io/drop", "a.io/refuse")
    message = "an identity with the extra a.io/refuse is not forwarded to this API server"

    with pytest.raises(Forbidden, match=message):
        permit_self(Caller(user), restrictions=restrictions)
    with pytest.raises(Forbidden, match=message):
        permit_impersonation(BOB, allowed(user), restrictions=restrictions)


@pytest.mark.parametrize("key", ["a.io/Refuse", "a.io/refuse2", "a.io%2frefuse", "refuse"])
def test_a_key_is_meant_exactly(key: str) -> None:
    user = with_extras(key)

    assert permit_self(Caller(user), restrictions=IdentityRestrictions(extras=POLICY)).user == user


def test_without_a_policy_everything_is_forwarded() -> None:
    user = with_extras("a.io/drop", "a.io/refuse")

    assert permit_self(Caller(user)).user == user


def test_the_original_user_is_told_whatever_is_dropped() -> None:
    restrictions = IdentityRestrictions(
        extras=ExtraPolicy(dropped=frozenset({NAME_KEY})), adds_original_user=True
    )

    permit = permit_impersonation(BOB, allowed(UserInfo("alice")), restrictions=restrictions)

    assert (NAME_KEY, ("bob",)) in permit.user.extra
