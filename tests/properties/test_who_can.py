"""Who may act as somebody, found from the rules, is who may by trying everyone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.model import RBACSnapshot
from proxy.core.rbac.who_can import Holder, holders, user_of_caller
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import ANONYMOUS, UserInfo
from tests.properties.universes import (
    ACTIONS,
    MODES,
    WANTED,
    attempt_of,
    clusters,
    everybody,
    is_allowed,
)

pytestmark = pytest.mark.timeout(240)  # many examples on a busy machine


def describes(holder: Holder, user: UserInfo) -> bool:
    """Tell whether somebody is whom a holder describes."""
    if holder.name not in {"", user.name} or (user.name == ANONYMOUS != holder.name):
        return False
    return set(holder.groups) <= set(user.groups)


@settings(max_examples=400, deadline=None)
@given(
    rbac=clusters(),
    mode=st.sampled_from(MODES),
    wanted_user=st.sampled_from(WANTED),
    request_info=st.sampled_from(ACTIONS),
)
def test_who_can_equals_brute_force(
    rbac: RBACSnapshot, mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> None:
    if (
        attempt_of(UserInfo("system:serviceaccount:ns:one"), mode, wanted_user, request_info)
        is None
    ):
        return  # the mode can make nobody of this

    found = holders(rbac, mode, wanted_user, request_info)

    for user in everybody(mode):
        attempt = attempt_of(user, mode, wanted_user, request_info)
        expected = attempt is not None and is_allowed(rbac, attempt)
        is_told = attempt is not None and any(describes(one, user) for one in found)
        assert is_told == expected, (user, found)


@settings(max_examples=200, deadline=None)
@given(
    rbac=clusters(),
    mode=st.sampled_from(MODES),
    wanted_user=st.sampled_from(WANTED),
    request_info=st.sampled_from(ACTIONS),
)
def test_every_holder_is_needed_and_may_do_it(
    rbac: RBACSnapshot, mode: ImpersonationMode, wanted_user: UserInfo, request_info: RequestInfo
) -> None:
    if (
        attempt_of(UserInfo("system:serviceaccount:ns:one"), mode, wanted_user, request_info)
        is None
    ):
        return

    found = holders(rbac, mode, wanted_user, request_info)

    assert len(set(found)) == len(found)
    for holder in found:
        attempt = attempt_of(user_of_caller(holder, wanted_user), mode, wanted_user, request_info)
        assert attempt is not None
        assert is_allowed(rbac, attempt), holder
        others = [other for other in found if other != holder]
        assert not any(describes(other, user_of_caller(holder, wanted_user)) for other in others)
