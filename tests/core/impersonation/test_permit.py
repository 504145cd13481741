from dataclasses import replace

import pytest

from proxy.core.errors import Forbidden
from proxy.core.impersonation.checks import Attempt, DecisionRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import (
    LEGACY_WARNING,
    Guards,
    admit_as,
    admit_self,
    check_names,
)
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity

BOB = Caller(Identity("bob", groups=("dev",)))
GUARDS = Guards(
    own_names=frozenset({"proxy"}), protected_groups=frozenset({"system:masters", "system:nodes"})
)


def allowed(acting: Identity, mode: Mode = Mode.USER_INFO) -> Allowed:
    attempt = Attempt(mode, BOB.identity, acting, Action("get", "/"), DecisionRules())
    return Allowed(attempt, acting)


def test_a_caller_that_wants_nobody_else_acts_as_itself_in_full() -> None:
    admission = admit_self(BOB, guards=GUARDS)

    assert admission.acting == BOB.identity
    assert (admission.mode, admission.constraint) == (None, None)


@pytest.mark.parametrize(
    ("mode", "constraint"), [(Mode.USER_INFO, "impersonate:user-info"), (Mode.LEGACY, None)]
)
def test_an_allowed_impersonation_acts_as_its_result(mode: Mode, constraint: str | None) -> None:
    acting = Identity("alice", groups=("system:authenticated",))

    admission = admit_as(BOB, allowed(acting, mode), guards=GUARDS)

    assert (admission.caller, admission.acting) == (BOB, acting)
    assert (admission.mode, admission.constraint) == (mode, constraint)


@pytest.mark.parametrize("group", ["system:masters", "system:nodes"])
def test_nobody_acts_with_a_protected_group(group: str) -> None:
    identity = Identity("alice", groups=("a", group))

    with pytest.raises(Forbidden, match=f"acting with the protected group {group} is not allowed"):
        admit_self(Caller(identity), guards=GUARDS)
    with pytest.raises(Forbidden, match=f"acting with the protected group {group} is not allowed"):
        admit_as(BOB, allowed(identity), guards=GUARDS)


def test_masters_are_protected_unless_the_list_is_emptied() -> None:
    master = Caller(Identity("root", groups=("system:masters",)))

    with pytest.raises(Forbidden):
        admit_self(master)

    assert admit_self(master, guards=Guards(protected_groups=frozenset())).acting == master.identity


def test_the_proxy_itself_is_not_served() -> None:
    proxy = Caller(Identity("proxy"))

    with pytest.raises(Forbidden, match="requests from the proxy's own identity are not served"):
        admit_self(proxy, guards=GUARDS)
    with pytest.raises(Forbidden, match="requests from the proxy's own identity are not served"):
        admit_as(proxy, allowed(Identity("alice")), guards=GUARDS)


def test_nobody_becomes_the_proxy() -> None:
    with pytest.raises(Forbidden, match="impersonating the proxy's own identity is not allowed"):
        admit_as(BOB, allowed(Identity("proxy")), guards=GUARDS)
    with pytest.raises(Forbidden, match="impersonating the proxy's own identity is not allowed"):
        check_names(BOB, Identity("proxy"), guards=GUARDS)


def test_names_are_not_compared_while_our_own_is_unknown() -> None:
    check_names(Caller(Identity("proxy")), Identity("proxy"), guards=Guards())


TELLING = Guards(own_names=frozenset({"proxy"}), tells_original_user=True)


def test_an_impersonated_identity_names_its_caller_only_where_that_is_wanted() -> None:
    wanted = allowed(Identity("alice"))

    assert admit_as(BOB, wanted, guards=GUARDS).acting == Identity("alice")
    assert dict(admit_as(BOB, wanted, guards=TELLING).acting.extra) == {
        "original-user.kube-understudy.io/name": ("bob",),
        "original-user.kube-understudy.io/groups": ("dev",),
    }
    assert admit_self(BOB, guards=TELLING).acting == BOB.identity


@pytest.mark.parametrize("guards", [GUARDS, TELLING], ids=["off", "on"])
def test_nobody_brings_an_original_user_along(guards: Guards) -> None:
    blamer = Identity("eve", extra=(("original-user.kube-understudy.io/name", ("root",)),))

    with pytest.raises(Forbidden, match="claims an original user"):
        admit_self(Caller(blamer), guards=guards)
    with pytest.raises(Forbidden, match="claims an original user"):
        admit_as(BOB, allowed(blamer), guards=guards)


def test_an_identity_that_would_change_on_the_way_is_not_admitted() -> None:
    with pytest.raises(Forbidden):
        admit_self(Caller(Identity("bob\n")), guards=GUARDS)
    with pytest.raises(Forbidden):
        admit_as(BOB, allowed(Identity("alice", groups=(" a",))), guards=GUARDS)


@pytest.mark.parametrize(
    ("mode", "action", "warns"),
    [
        (Mode.LEGACY, LegacyAction.WARN, True),
        (Mode.LEGACY, LegacyAction.ALLOW, False),
        (Mode.USER_INFO, LegacyAction.WARN, False),
    ],
)
def test_only_legacy_impersonation_under_warn_is_warned_of(
    mode: Mode, action: LegacyAction, *, warns: bool
) -> None:
    rules = DecisionRules(legacy=LegacyPolicy(action))
    attempt = Attempt(mode, BOB.identity, Identity("alice"), Action("get", "/"), rules)

    admission = admit_as(BOB, Allowed(attempt, Identity("alice")), guards=GUARDS)

    assert admission.warning == (LEGACY_WARNING if warns else None)


def test_a_uid_is_admitted_only_where_the_api_server_reads_it() -> None:
    old = replace(GUARDS, takes_uids=False)
    known = Identity("alice", uid="7")

    assert admit_self(Caller(known), guards=GUARDS).acting == known
    assert admit_self(BOB, guards=old).acting == BOB.identity
    with pytest.raises(Forbidden, match=r"older than 1\.22"):
        admit_self(Caller(known), guards=old)
    with pytest.raises(Forbidden, match=r"older than 1\.22"):
        admit_as(BOB, allowed(known), guards=old)
