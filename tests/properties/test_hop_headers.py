"""What holds for every request through the hop: whom it acts as is never for the client to say."""

import pytest
from hypothesis import given, settings

from proxy.core.errors import BadRequest
from proxy.core.forwarding import (
    HopContext,
    assert_one_identity,
    build_outbound_head,
    normalize_header_name,
)
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.impersonation.permit import permit_unchecked
from proxy.core.userinfo import UserInfo
from proxy.sidecar.handler import client_authorization
from tests.properties.test_headers import client_headers
from tests.support.sent_heads import lines_of

pytestmark = pytest.mark.timeout(120)  # many examples on a busy machine

NODE = permit_unchecked(UserInfo("system:node:n1"))


@settings(max_examples=500)
@given(client_headers)
def test_what_the_proxy_would_read_as_impersonation_never_passes(
    headers: list[tuple[bytes, bytes]],
) -> None:
    try:
        authorization = client_authorization(HeaderList(headers))
    except BadRequest:
        return

    assert parse_impersonation_headers(headers) is None
    assert not any(normalize_header_name(name).startswith(b"impersonate") for name, _ in headers)
    context = HopContext(b"audit", b"127.0.0.1", authorization=authorization)
    head = build_outbound_head(b"GET / HTTP/1.1", HeaderList(headers), NODE, context)
    assert_one_identity(head, NODE, authorization)
    sent = lines_of(head)
    names = [normalize_header_name(name) for name, _ in sent]
    brought = [normalize_header_name(name) for name, _ in headers].count(b"authorization")
    assert names.count(b"authorization") == brought <= 1
    assert [line for line in sent if normalize_header_name(line[0]).startswith(b"impersonate")] == [
        (b"Impersonate-User", b"system:node:n1")
    ]
