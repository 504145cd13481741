"""How long a 403 has to wait: as long as it may be the API server's own word, and no longer."""

import pytest

from proxy.upstream.auth_errors import MAX_DENIAL_BYTES, HeldResponse
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import ResponseHead

STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no"}'
HEAD = ResponseHead(403, b"Forbidden", (), CHUNKED, keep_alive=True)


def held() -> HeldResponse:
    return HeldResponse(HEAD, denial_type="application/json")


@pytest.mark.parametrize("size", [1, 7, len(STATUS)])
def test_a_status_waits_in_whatever_pieces_it_comes(size: int) -> None:
    answer = held()
    pieces = [STATUS[at : at + size] for at in range(0, len(STATUS), size)]

    assert all(answer.append(piece) for piece in pieces)
    assert answer.body == STATUS


def test_what_turns_out_to_be_something_else_goes_on_with_that_piece() -> None:
    answer = held()

    assert answer.append(b'{"kind":')
    assert not answer.append(b'"Pod"')
    assert answer.body == b'{"kind":"Pod"'


def test_what_is_longer_than_any_denial_goes_on() -> None:
    answer = held()

    assert answer.append(STATUS)
    assert answer.append(b" " * (MAX_DENIAL_BYTES - len(STATUS)))
    assert not answer.append(b" ")


def test_a_401_waits_for_an_answer_whatever_it_says() -> None:
    assert HeldResponse(HEAD).append(b"anything")
