import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import (
    InvalidTruncatedValues,
    TruncatedValue,
    format_truncated_values,
    is_truncated_from,
    json_size,
    longest_prefix,
    parse_truncated_values,
    truncate_to_size,
    truncated_value,
)

texts = st.text(
    st.sampled_from('a"\\<>&\x00\x1f\x7fé\u2028\ud800\udcff\ufffd😀') | st.characters(),
    max_size=1300,
)


@given(texts, st.integers(0, 3000))
def test_the_longest_prefix_that_fits_is_kept(text: str, most: int) -> None:
    kept = longest_prefix(text, most, json_size)

    assert text.startswith(kept)
    assert json_size(kept) <= most
    assert kept == text or json_size(text[: len(kept) + 1]) > most


@given(texts, st.integers(len(TRUNCATION_MARKER), 3000))
def test_a_shortened_text_fits_with_its_marker_and_is_one_json_string(text: str, most: int) -> None:
    encoded = go_json(truncate_to_size(text, most))

    assert len(encoded.encode()) - 2 <= most
    assert json.loads(encoded).endswith(TRUNCATION_MARKER)


def test_a_cut_tells_the_length_and_the_digest_of_the_whole() -> None:
    whole = "/api/v1/pods?" + "é" * 100

    cut = truncated_value("requestURI", whole)

    assert cut == TruncatedValue("requestURI", 213, hashlib.sha256(whole.encode()).hexdigest())
    assert is_truncated_from(cut, whole)
    assert not is_truncated_from(cut, whole + "x")
    assert not is_truncated_from(cut, whole[:-1] + "e")


def test_what_is_not_text_is_compared_as_the_other_log_has_it() -> None:
    sent = b"/?\xff\xe2\x82x".decode("utf-8", "surrogateescape")
    as_go_writes_it = json.loads(go_json(sent))

    assert as_go_writes_it == "/?\ufffd\ufffd\ufffdx"
    assert is_truncated_from(truncated_value("requestURI", sent), as_go_writes_it)


def test_cuts_are_read_as_they_were_written() -> None:
    cuts = (truncated_value("requestURI", "<a>"), truncated_value("user.groups", '["x"]'))

    assert parse_truncated_values(format_truncated_values(cuts)) == {cut.path: cut for cut in cuts}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a":1}', '{"a":{}}', '{"a":{"bytes":"1","sha256":"x"}}', '{"a":{"bytes":1}}'],
)
def test_what_tells_no_cuts_is_refused(text: str) -> None:
    with pytest.raises(InvalidTruncatedValues):
        parse_truncated_values(text)
