"""In which order API servers are tried, and how long one that failed is left in peace."""

import ssl

import pytest

from proxy.upstream.endpoints import BACKOFF_SECONDS, Endpoint, EndpointSet
from tests.support.clock import FakeClock

GONE = ConnectionRefusedError()


class Known:
    """Three endpoints, which a new certificate makes new ones."""

    def __init__(self) -> None:
        self.endpoints = self.new()

    def new(self) -> tuple[Endpoint, ...]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return tuple(Endpoint(host, 6443, host, context) for host in ("a", "b", "c"))


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def endpoints(known: Known, clock: FakeClock) -> EndpointSet:
    return EndpointSet(known, clock)


def hosts(endpoints: EndpointSet) -> str:
    return "".join(endpoint.host for endpoint in endpoints.in_order())


def test_the_first_is_the_first(endpoints: EndpointSet) -> None:
    assert hosts(endpoints) == hosts(endpoints) == "abc"


def test_one_that_failed_comes_last_until_it_has_rested(
    endpoints: EndpointSet, clock: FakeClock
) -> None:
    endpoints.mark_unreachable(endpoints.all[0], GONE)

    assert hosts(endpoints) == "bca"
    clock.advance(BACKOFF_SECONDS - 0.1)
    assert hosts(endpoints) == "bca"
    clock.advance(0.1)
    assert hosts(endpoints) == "abc"


def test_only_one_at_a_time_tries_what_has_rested(endpoints: EndpointSet, clock: FakeClock) -> None:
    endpoints.mark_unreachable(endpoints.all[0], GONE)
    clock.advance(BACKOFF_SECONDS)

    assert [hosts(endpoints) for _ in range(3)] == ["abc", "bca", "bca"]
    endpoints.mark_reachable(endpoints.all[0])
    assert hosts(endpoints) == "abc"


def test_if_all_failed_all_are_tried(endpoints: EndpointSet) -> None:
    for endpoint in endpoints.all:
        endpoints.mark_unreachable(endpoint, GONE)

    assert hosts(endpoints) == "abc"


def test_what_failed_rests_though_our_certificate_is_new(
    endpoints: EndpointSet, known: Known
) -> None:
    old = endpoints.all[0]
    endpoints.mark_unreachable(old, GONE)

    known.endpoints = known.new()

    assert hosts(endpoints) == "bca"
    assert old not in endpoints.all


@pytest.mark.parametrize(
    ("host", "url"), [("api.example", "https://api.example:6443"), ("::1", "https://[::1]:6443")]
)
def test_an_endpoint_is_a_url(host: str, url: str) -> None:
    endpoint = Endpoint(host, 6443, host, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    assert endpoint.url == url


def test_a_failure_is_told_once_and_its_end_too(
    endpoints: EndpointSet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        endpoints.mark_unreachable(endpoints.all[0], GONE)
    for _ in range(3):
        endpoints.mark_reachable(endpoints.all[0])

    assert [record.message for record in caplog.records] == [
        "API server endpoint failed",
        "API server endpoint recovered",
    ]
