"""What holds for every request through the hop: whom it acts as is never for the client to say."""

import pytest
from hypothesis import given, settings

from proxy.core.errors import BadRequest
from proxy.core.forwarding import (
    Hop,
    assert_one_identity,
    folded_name,
    outbound_head,
)
from proxy.core.http.headers import HeaderLines
from proxy.core.impersonation.headers import read_wanted_identity
from proxy.core.impersonation.permit import pass_on_as
from proxy.core.userinfo import Identity
from proxy.sidecar.handler import own_authorization
from tests.properties.test_headers import client_headers
from tests.support.sent_heads import lines_of

pytestmark = pytest.mark.timeout(120)  # many examples on a busy machine

NODE = pass_on_as(Identity("system:node:n1"))


@settings(max_examples=500)
@given(client_headers)
def test_what_the_proxy_would_read_as_impersonation_never_passes(
    headers: list[tuple[bytes, bytes]],
) -> None:
    try:
        authorization = own_authorization(HeaderLines(headers))
    except BadRequest:
        return

    assert read_wanted_identity(headers) is None
    assert not any(folded_name(name).startswith(b"impersonate") for name, _ in headers)
    hop = Hop(b"audit", b"127.0.0.1", authorization=authorization)
    head = outbound_head(b"GET / HTTP/1.1", HeaderLines(headers), NODE, hop)
    assert_one_identity(head, NODE, authorization)
    sent = lines_of(head)
    names = [folded_name(name) for name, _ in sent]
    brought = [folded_name(name) for name, _ in headers].count(b"authorization")
    assert names.count(b"authorization") == brought <= 1
    assert [line for line in sent if folded_name(line[0]).startswith(b"impersonate")] == [
        (b"Impersonate-User", b"system:node:n1")
    ]
