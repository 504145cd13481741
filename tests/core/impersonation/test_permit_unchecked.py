"""The permit of a hop that has no credential: it names somebody, and decides nothing."""

import pytest

from proxy.core.errors import Forbidden
from proxy.core.impersonation.permit import permit_unchecked
from proxy.core.userinfo import UserInfo


def test_whom_it_is_told_to_ask_for_goes_on() -> None:
    wanted_user = UserInfo("system:node:node-1")

    permit = permit_unchecked(wanted_user)

    assert permit.user == wanted_user
    assert (permit.mode, permit.constraint, permit.warning) == (None, None, None)
    assert permit.impersonation_headers == b"Impersonate-User: system:node:node-1\r\n"


@pytest.mark.parametrize("wanted_user", [UserInfo(""), UserInfo("a\r\nb"), UserInfo("a", "u ")])
def test_but_only_whom_headers_can_say(wanted_user: UserInfo) -> None:
    with pytest.raises(Forbidden, match="cannot be forwarded"):
        permit_unchecked(wanted_user)
