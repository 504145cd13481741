import pytest

from proxy.core.http.headers import Header
from proxy.core.http.websocket import parse_offered_protocols, remove_tokens

TOKEN = b"base64url.bearer.authorization.k8s.io.Y2FuYXJ5"


def protocols(*values: bytes) -> list[Header]:
    return [(b"Sec-WebSocket-Protocol", value) for value in values]


@pytest.mark.parametrize(
    ("lines", "tokens", "others"),
    [
        ([], (), ()),
        ([b"v5"], (), (b"v5",)),
        ([b"v5, " + TOKEN + b" ,v4"], (TOKEN,), (b"v5", b"v4")),
        ([TOKEN, b"v5"], (TOKEN,), (b"v5",)),
        ([TOKEN, TOKEN], (TOKEN, TOKEN), ()),
        ([TOKEN + b","], (TOKEN,), (b"",)),
        ([TOKEN.upper(), b"v5"], (TOKEN.upper(),), (b"v5",)),
        ([b"\xc2\xa0" + TOKEN, b"v5"], (b"\xc2\xa0" + TOKEN,), (b"v5",)),
    ],
)
def test_all_lines_together_are_one_offer(
    lines: list[bytes], tokens: tuple[bytes, ...], others: tuple[bytes, ...]
) -> None:
    assert parse_offered_protocols(protocols(*lines)) == (tokens, others)


def test_without_a_token_no_line_is_touched() -> None:
    headers = [(b"A", b"a"), *protocols(b"v5 ,v4", b"v3"), (b"B", b"b")]

    assert remove_tokens(headers) is headers


def test_what_a_token_leaves_stands_in_one_line_in_its_place() -> None:
    headers = [
        (b"A", b"a"),
        (b"sec-websocket-PROTOCOL", b"v5, " + TOKEN),
        (b"B", b"b"),
        (b"Sec-WebSocket-Protocol", b"v4 , v3"),
    ]

    assert remove_tokens(headers) == [
        (b"A", b"a"),
        (b"sec-websocket-PROTOCOL", b"v5,v4,v3"),
        (b"B", b"b"),
    ]


def test_a_token_alone_leaves_no_line() -> None:
    assert remove_tokens([(b"A", b"a"), *protocols(TOKEN, TOKEN)]) == [(b"A", b"a")]
