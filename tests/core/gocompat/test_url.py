import pytest

from proxy.core.errors import BadRequest
from proxy.core.gocompat.url import (
    QueryParameter,
    first_value,
    path_unescape,
    query_unescape,
    request_uri,
    split_target,
)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", b""),
        (b"/a?b?c", "/a", b"b?c"),
        (b"/a%2Fb%2f", "/a/b/", b""),
        (b"/a+b?c+d", "/a+b", b"c+d"),
        (b"//a/../b", "//a/../b", b""),
        ("/é/%C3%A9".encode(), "/é/é", b""),
        (b"/a?%zz", "/a", b"%zz"),
        (b"/a?%00%ff", "/a", b"%00%ff"),
    ],
)
def test_a_target_is_split_and_its_path_decoded(target: bytes, path: str, query: bytes) -> None:
    assert split_target(target) == (path, query)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (b"", "only origin-form request targets are served"),
        (b"*", "only origin-form request targets are served"),
        (b"api/v1", "only origin-form request targets are served"),
        (b"http://host/api", "only origin-form request targets are served"),
        (b"host:443", "only origin-form request targets are served"),
        (b"/a#b", "the request target has a fragment"),
        (b"/a?b#c", "the request target has a fragment"),
        (b"/a b", "the request target has spaces or control characters"),
        (b"/a\n", "the request target has spaces or control characters"),
        (b"/a?\x7f", "the request target has spaces or control characters"),
        (b"/a%", "the request target has an invalid percent-escape"),
        (b"/a%2", "the request target has an invalid percent-escape"),
        (b"/a%zz", "the request target has an invalid percent-escape"),
        (b"/a%ff", "the request target is not valid UTF-8"),
        (b"/a\xff", "the request target is not valid UTF-8"),
        (b"/a%00", "the request target has control characters"),
        (b"/a%0a", "the request target has control characters"),
        (b"/a%7f", "the request target has control characters"),
        (b"/a?" + b"&" * 10_000, "the request target has too many query parameters"),
    ],
)
def test_a_target_with_two_meanings_is_refused(target: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        split_target(target)

    assert refusal.value.message == message


def test_a_query_with_as_many_parameters_as_go_reads_is_served() -> None:
    assert split_target(b"/a?" + b"&" * 9_999)[0] == "/a"


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"a=1&b=2&c=3", {"a": "1", "b": "2"}),
        (b"a=1&a=2", {"a": "1"}),
        (b"a", {"a": ""}),
        (b"a=b=c", {"a": "b=c"}),
        (b"a=1;&a=2", {"a": "2"}),
        (b"a;=1&a=2", {"a": "2"}),
        (b"a=%zz&a=2", {"a": "2"}),
        (b"%zz=1", {}),
        (b"%61=+%2B", {"a": " +"}),
        (b"a=%ff", {"a": "\udcff"}),
        (b"", {}),
        (b"&&", {}),
    ],
)
def test_the_first_readable_value_of_a_parameter_counts(
    query: bytes, values: dict[str, str]
) -> None:
    found = {name: first_value(query, QueryParameter(name)) for name in ("a", "b")}

    assert found == {"a": None, "b": None} | values


def test_a_plus_is_a_blank_in_a_query_and_a_plus_elsewhere() -> None:
    assert query_unescape(b"a+b") == "a b"
    assert path_unescape(b"a+b") == "a+b"
    assert path_unescape(b"a%2") is None


@pytest.mark.parametrize(
    ("target", "uri"),
    [
        (b"/a%2fb?c=%zz", "/a%2fb?c=%zz"),
        (b"/a?", "/a?"),
        (b"/<a>?<b>", "/%3Ca%3E?<b>"),
        ("/é!".encode(), "/%C3%A9%21"),
        (b"/a?\xff", "/a?\udcff"),
    ],
)
def test_the_uri_shown_is_the_one_go_would_show(target: bytes, uri: str) -> None:
    assert request_uri(target) == uri
