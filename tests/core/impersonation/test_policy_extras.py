"""Which extras go upstream."""

import pytest

from proxy.core.errors import Forbidden
from proxy.core.http.headers import identity_headers
from proxy.core.impersonation.checks import Attempt, DecisionRules
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import NAME_KEY, Guards, admit_as, admit_self
from proxy.core.impersonation.policy import ExtraPolicy
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity, extra_of

POLICY = ExtraPolicy(dropped=frozenset({"a.io/drop"}), refused=frozenset({"a.io/refuse"}))
BOB = Caller(Identity("bob"))


def with_extras(*keys: str) -> Identity:
    return Identity("alice", "7", ("dev",), extra_of(dict.fromkeys(keys, ("1", "2"))))


def allowed(acting: Identity) -> Allowed:
    attempt = Attempt(Mode.USER_INFO, BOB.identity, acting, Action("get", "/"), DecisionRules())
    return Allowed(attempt, acting)


def test_a_dropped_key_stays_here_with_all_its_values_and_the_rest_goes_on() -> None:
    guards = Guards(extras=POLICY)
    identity = with_extras("a.io/drop", "a.io/other")

    itself = admit_self(Caller(identity), guards=guards)
    impersonated = admit_as(BOB, allowed(identity), guards=guards)

    for admission in (itself, impersonated):
        assert admission.acting == with_extras("a.io/other")
        assert b"drop" not in repr(identity_headers(admission.acting)).encode().lower()


def test_what_is_dropped_is_still_the_callers() -> None:
    caller = Caller(with_extras("a.io/drop"))

    assert admit_self(caller, guards=Guards(extras=POLICY)).caller == caller


def test_a_refused_key_goes_nowhere() -> None:
    guards = Guards(extras=POLICY)
    identity = with_extras("a.io/drop", "a.io/refuse")
    message = "an identity with the extra a.io/refuse is not forwarded to this API server"

    with pytest.raises(Forbidden, match=message):
        admit_self(Caller(identity), guards=guards)
    with pytest.raises(Forbidden, match=message):
        admit_as(BOB, allowed(identity), guards=guards)


@pytest.mark.parametrize("key", ["a.io/Refuse", "a.io/refuse2", "a.io%2frefuse", "refuse"])
def test_a_key_is_meant_exactly(key: str) -> None:
    identity = with_extras(key)

    assert admit_self(Caller(identity), guards=Guards(extras=POLICY)).acting == identity


def test_without_a_policy_everything_is_forwarded() -> None:
    identity = with_extras("a.io/drop", "a.io/refuse")

    assert admit_self(Caller(identity)).acting == identity


def test_the_original_user_is_told_whatever_is_dropped() -> None:
    guards = Guards(extras=ExtraPolicy(dropped=frozenset({NAME_KEY})), tells_original_user=True)

    admission = admit_as(BOB, allowed(Identity("alice")), guards=guards)

    assert (NAME_KEY, ("bob",)) in admission.acting.extra
