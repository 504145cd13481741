"""What leaves for the API server, taken apart again."""

from collections.abc import Sequence

from proxy.core.forwarding import (
    DEFAULT_FORWARDING_RULES,
    ForwardingRules,
    HopContext,
    build_outbound_head,
)
from proxy.core.http.headers import Header, HeaderList
from proxy.core.impersonation.permit import Permit


def outbound_headers(
    headers: Sequence[Header],
    permit: Permit,
    context: HopContext,
    *,
    rules: ForwardingRules = DEFAULT_FORWARDING_RULES,
) -> list[Header]:
    """Return the header lines that a request with these headers leaves with."""
    head = build_outbound_head(b"GET / HTTP/1.1", HeaderList(headers), permit, context, rules=rules)
    return lines_of(head)


def lines_of(head: bytes) -> list[Header]:
    """Return the header lines of a head."""
    first_line, *lines, end, rest = head.split(b"\r\n")
    assert first_line
    assert (end, rest) == (b"", b"")
    pairs = [line.partition(b": ") for line in lines]
    return [(name, value) for name, _, value in pairs]
