import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.kubernetes.url import OVERLOADS, parse_request_uri, parse_url
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('url("HTTPS://u:p@example.com:80/a%20b?x=1&x=2&y#f").getScheme()', "https"),
        ('url("https://u@example.com:80/a").getHost()', "example.com:80"),
        ('url("https://[::1]:80/a").getHostname()', "::1"),
        ('url("https://example.com:80/").getPort()', "80"),
        ('url("https://e.com/a b").getEscapedPath()', "/a%20b"),
        ('url("/a?x=1&x=2&b=%20+&;&c=%zz").getQuery()', {"x": ["1", "2"], "b": ["  "]}),
        ('isURL("a b")', False),
        ('isURL("http://[::1")', False),
        ('isURL("/a")', True),
        ('isURL("")', False),
        ('isURL("a:b")', True),
        ('isURL("*")', True),
        ('isURL("http://a:b/")', False),
        ('isURL("http://a:1:2/")', False),
        ('isURL(":a")', False),
        ('isURL("/%zz")', False),
        ('url("/a") == url("/a")', True),
        ('url("http://[fe80::1%25en0]/").getHostname()', "fe80::1%en0"),
        ('isURL("http://[fe80::1%25]/")', False),
        ('isURL("http://a^b@c/")', False),
        ('isURL("http://[1.2.3.4]/")', False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("url(object.s)", "URL parse error"),
        ("object.a.getHost()", "no such overload"),
        ('url("/a#%zz" + object.s)', "URL parse error"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)


def test_a_fragment_is_part_of_a_path_in_a_request_only() -> None:
    requested, parsed = parse_request_uri("/a#b"), parse_url("/a#b")

    assert requested is not None
    assert parsed is not None
    assert requested.escaped_path == "/a%23b"
    assert (parsed.escaped_path, parsed.text) == ("/a", "/a#b")
