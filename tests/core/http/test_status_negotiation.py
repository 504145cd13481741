from proxy.core.http.status import wants_pretty
from tests.core.vectors import NegotiationVector, load

VECTORS = load("negotiation", NegotiationVector)


def test_json_is_indented_exactly_when_the_api_server_would_indent_it() -> None:
    for vector in VECTORS:
        headers = [
            (b"User-Agent", vector["Agent"].encode()),
            (b"Accept", vector["Accept"].encode()),
        ]

        assert wants_pretty(headers, vector["Query"].encode()) is vector["Pretty"], vector


def test_the_vectors_hold_every_way_an_error_can_be_written() -> None:
    forms = {(vector["MediaType"], vector["Pretty"]) for vector in VECTORS}

    assert forms == {("application/json", True), ("application/json", False), ("none", True)}


def test_only_the_first_line_of_a_header_counts() -> None:
    headers = [(b"accept", b"application/json"), (b"Accept", b"text/html")]

    assert wants_pretty(headers, b"") is False


def test_json_stands_in_for_a_form_that_we_do_not_write() -> None:
    accept = b"application/yaml;stream=watch,application/vnd.kubernetes.protobuf"

    assert wants_pretty([(b"Accept", accept)], b"") is False
