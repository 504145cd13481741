"""The permit of a hop that has no credential: it names somebody, and decides nothing."""

import pytest

from proxy.core.errors import Forbidden
from proxy.core.impersonation.permit import pass_on_as
from proxy.core.userinfo import Identity


def test_whom_it_is_told_to_ask_for_goes_on() -> None:
    wanted = Identity("system:node:node-1")

    admission = pass_on_as(wanted)

    assert admission.acting == wanted
    assert (admission.mode, admission.constraint, admission.warning) == (None, None, None)
    assert admission.identity_lines == b"Impersonate-User: system:node:node-1\r\n"


@pytest.mark.parametrize("wanted", [Identity(""), Identity("a\r\nb"), Identity("a", "u ")])
def test_but_only_whom_headers_can_say(wanted: Identity) -> None:
    with pytest.raises(Forbidden, match="cannot be forwarded"):
        pass_on_as(wanted)
