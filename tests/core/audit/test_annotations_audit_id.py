import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.audit.annotations import client_audit_id, new_audit_ids
from proxy.core.errors import BadRequest


@pytest.mark.parametrize(
    ("value", "adopted"),
    [
        (b"1b4e28ba-2fa1-11d2-883f-0016d3cca427", b"1b4e28ba-2fa1-11d2-883f-0016d3cca427"),
        (b"any printable text", b"any printable text"),
        (b"x" * 64, b"x" * 64),
        (b"x" * 65, None),
        (b"", None),
        (b"tab\there", None),
        ("\u00e9".encode(), None),
    ],
)
def test_a_client_s_id_is_adopted_if_it_is_fit_for_a_log(
    value: bytes, adopted: bytes | None
) -> None:
    assert client_audit_id([(b"Accept", b"*/*"), (b"audit-ID", value)]) == adopted


def test_without_an_id_there_is_none_to_adopt() -> None:
    assert client_audit_id([(b"Accept", b"*/*")]) is None


def test_two_ids_are_refused() -> None:
    with pytest.raises(BadRequest, match="more than one Audit-ID header"):
        client_audit_id([(b"Audit-ID", b"a"), (b"audit-id", b"a")])


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=4))
def test_new_ids_are_random_uuids(random: list[bytes]) -> None:
    expected = [str(uuid.UUID(bytes=one, version=4)).encode() for one in random]

    assert new_audit_ids(b"".join(random)) == expected
