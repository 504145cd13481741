from dataclasses import replace

import pytest

from proxy.core.errors import Forbidden
from proxy.core.impersonation.checks import Attempt, ImpersonationRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import (
    LEGACY_WARNING,
    IdentityRestrictions,
    check_proxy_identity,
    permit_impersonation,
    permit_self,
)
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo

BOB = Caller(UserInfo("bob", groups=("dev",)))
GUARDS = IdentityRestrictions(
    proxy_usernames=frozenset({"proxy"}),
    protected_groups=frozenset({"system:masters", "system:nodes"}),
)


def allowed(
    impersonated_user: UserInfo, mode: ImpersonationMode = ImpersonationMode.USER_INFO
) -> Allowed:
    attempt = Attempt(
        mode, BOB.user, impersonated_user, RequestInfo("get", "/"), ImpersonationRules()
    )
    return Allowed(attempt, impersonated_user)


def test_a_caller_that_wants_nobody_else_acts_as_itself_in_full() -> None:
    permit = permit_self(BOB, restrictions=GUARDS)

    assert permit.user == BOB.user
    assert (permit.mode, permit.constraint) == (None, None)


@pytest.mark.parametrize(
    ("mode", "constraint"),
    [(ImpersonationMode.USER_INFO, "impersonate:user-info"), (ImpersonationMode.LEGACY, None)],
)
def test_an_allowed_impersonation_acts_as_its_result(
    mode: ImpersonationMode, constraint: str | None
) -> None:
    impersonated_user = UserInfo("alice", groups=("system:authenticated",))

    permit = permit_impersonation(BOB, allowed(impersonated_user, mode), restrictions=GUARDS)

    assert (permit.caller, permit.user) == (BOB, impersonated_user)
    assert (permit.mode, permit.constraint) == (mode, constraint)


@pytest.mark.parametrize("group", ["system:masters", "system:nodes"])
def test_nobody_acts_with_a_protected_group(group: str) -> None:
    user = UserInfo("alice", groups=("a", group))

    with pytest.raises(Forbidden, match=f"acting with the protected group {group} is not allowed"):
        permit_self(Caller(user), restrictions=GUARDS)
    with pytest.raises(Forbidden, match=f"acting with the protected group {group} is not allowed"):
        permit_impersonation(BOB, allowed(user), restrictions=GUARDS)


def test_masters_are_protected_unless_the_list_is_emptied() -> None:
    master = Caller(UserInfo("root", groups=("system:masters",)))

    with pytest.raises(Forbidden):
        permit_self(master)

    assert (
        permit_self(master, restrictions=IdentityRestrictions(protected_groups=frozenset())).user
        == master.user
    )


def test_the_proxy_itself_is_not_served() -> None:
    proxy = Caller(UserInfo("proxy"))

    with pytest.raises(Forbidden, match="requests from the proxy's own identity are not served"):
        permit_self(proxy, restrictions=GUARDS)
    with pytest.raises(Forbidden, match="requests from the proxy's own identity are not served"):
        permit_impersonation(proxy, allowed(UserInfo("alice")), restrictions=GUARDS)


def test_nobody_becomes_the_proxy() -> None:
    with pytest.raises(Forbidden, match="impersonating the proxy's own identity is not allowed"):
        permit_impersonation(BOB, allowed(UserInfo("proxy")), restrictions=GUARDS)
    with pytest.raises(Forbidden, match="impersonating the proxy's own identity is not allowed"):
        check_proxy_identity(BOB, UserInfo("proxy"), restrictions=GUARDS)


def test_names_are_not_compared_while_our_own_is_unknown() -> None:
    check_proxy_identity(
        Caller(UserInfo("proxy")), UserInfo("proxy"), restrictions=IdentityRestrictions()
    )


TELLING = IdentityRestrictions(proxy_usernames=frozenset({"proxy"}), adds_original_user=True)


def test_an_impersonated_identity_names_its_caller_only_where_that_is_wanted() -> None:
    wanted = allowed(UserInfo("alice"))

    assert permit_impersonation(BOB, wanted, restrictions=GUARDS).user == UserInfo("alice")
    assert dict(permit_impersonation(BOB, wanted, restrictions=TELLING).user.extra) == {
        "original-user.kube-understudy.io/name": ("bob",),
        "original-user.kube-understudy.io/groups": ("dev",),
    }
    assert permit_self(BOB, restrictions=TELLING).user == BOB.user


@pytest.mark.parametrize("restrictions", [GUARDS, TELLING], ids=["off", "on"])
def test_nobody_brings_an_original_user_along(restrictions: IdentityRestrictions) -> None:
    blamer = UserInfo("eve", extra=(("original-user.kube-understudy.io/name", ("root",)),))

    with pytest.raises(Forbidden, match="claims an original user"):
        permit_self(Caller(blamer), restrictions=restrictions)
    with pytest.raises(Forbidden, match="claims an original user"):
        permit_impersonation(BOB, allowed(blamer), restrictions=restrictions)


def test_an_identity_that_would_change_on_the_way_is_not_admitted() -> None:
    with pytest.raises(Forbidden):
        permit_self(Caller(UserInfo("bob\n")), restrictions=GUARDS)
    with pytest.raises(Forbidden):
        permit_impersonation(BOB, allowed(UserInfo("alice", groups=(" a",))), restrictions=GUARDS)


@pytest.mark.parametrize(
    ("mode", "action", "warns"),
    [
        (ImpersonationMode.LEGACY, LegacyAction.WARN, True),
        (ImpersonationMode.LEGACY, LegacyAction.ALLOW, False),
        (ImpersonationMode.USER_INFO, LegacyAction.WARN, False),
    ],
)
def test_only_legacy_impersonation_under_warn_is_warned_of(
    mode: ImpersonationMode, action: LegacyAction, *, warns: bool
) -> None:
    rules = ImpersonationRules(legacy=LegacyPolicy(action))
    attempt = Attempt(mode, BOB.user, UserInfo("alice"), RequestInfo("get", "/"), rules)

    permit = permit_impersonation(BOB, Allowed(attempt, UserInfo("alice")), restrictions=GUARDS)

    assert permit.warning == (LEGACY_WARNING if warns else None)


def test_a_uid_is_admitted_only_where_the_api_server_reads_it() -> None:
    old = replace(GUARDS, supports_uid=False)
    known = UserInfo("alice", uid="7")

    assert permit_self(Caller(known), restrictions=GUARDS).user == known
    assert permit_self(BOB, restrictions=old).user == BOB.user
    with pytest.raises(Forbidden, match=r"older than 1\.22"):
        permit_self(Caller(known), restrictions=old)
    with pytest.raises(Forbidden, match=r"older than 1\.22"):
        permit_impersonation(BOB, allowed(known), restrictions=old)
