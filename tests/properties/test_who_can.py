"""Who may act as somebody, found from the rules, is who may by trying everyone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.impersonation.modes import Mode
from proxy.core.rbac.model import Rbac
from proxy.core.rbac.who_can import Holder, caller_identity, holders
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import ANONYMOUS, Identity
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


def describes(holder: Holder, identity: Identity) -> bool:
    """Tell whether somebody is whom a holder describes."""
    if holder.name not in {"", identity.name} or (identity.name == ANONYMOUS != holder.name):
        return False
    return set(holder.groups) <= set(identity.groups)


@settings(max_examples=400, deadline=None)
@given(
    rbac=clusters(),
    mode=st.sampled_from(MODES),
    wanted=st.sampled_from(WANTED),
    action=st.sampled_from(ACTIONS),
)
def test_who_can_equals_brute_force(
    rbac: Rbac, mode: Mode, wanted: Identity, action: Action
) -> None:
    if attempt_of(Identity("system:serviceaccount:ns:one"), mode, wanted, action) is None:
        return  # the mode can make nobody of this

    found = holders(rbac, mode, wanted, action)

    for identity in everybody(mode):
        attempt = attempt_of(identity, mode, wanted, action)
        expected = attempt is not None and is_allowed(rbac, attempt)
        is_told = attempt is not None and any(describes(one, identity) for one in found)
        assert is_told == expected, (identity, found)


@settings(max_examples=200, deadline=None)
@given(
    rbac=clusters(),
    mode=st.sampled_from(MODES),
    wanted=st.sampled_from(WANTED),
    action=st.sampled_from(ACTIONS),
)
def test_every_holder_is_needed_and_may_do_it(
    rbac: Rbac, mode: Mode, wanted: Identity, action: Action
) -> None:
    if attempt_of(Identity("system:serviceaccount:ns:one"), mode, wanted, action) is None:
        return

    found = holders(rbac, mode, wanted, action)

    assert len(set(found)) == len(found)
    for holder in found:
        attempt = attempt_of(caller_identity(holder, wanted), mode, wanted, action)
        assert attempt is not None
        assert is_allowed(rbac, attempt), holder
        others = [other for other in found if other != holder]
        assert not any(describes(other, caller_identity(holder, wanted)) for other in others)
