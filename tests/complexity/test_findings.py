"""Requests that once blocked the event loop: each is held to the bars of `make complexity`."""

from collections.abc import Callable

import pytest

from proxy.core.errors import BadRequest, TargetTooLong
from proxy.core.http.status import wants_pretty
from proxy.core.http.websocket import parse_offered_protocols
from proxy.core.requestinfo.request_info import (
    DEFAULT_TARGET_BYTES,
    check_target_length,
    parse_partial_request_info,
    parse_request_info,
)
from proxy.core.requestinfo.timeout import check_timeout
from tests.complexity.measuring import (
    BAR_BYTES,
    MOST_GROWTH,
    Case,
    Figures,
    measure,
    of_function,
)

Use = Callable[[int], object]


def figures_of(name: str, use: Use) -> Figures:
    return measure(Case(name, lambda size: of_function(lambda: use(size))))


def assert_is_cheap(use: Use) -> None:
    assert figures_of("finding", use).faults == []


def is_read(target: bytes) -> bool:
    """Return whether a target is read at all: longer ones are refused at the connection."""
    if len(target) <= DEFAULT_TARGET_BYTES:
        check_target_length(b"GET", target, max_bytes=DEFAULT_TARGET_BYTES)
        return True
    with pytest.raises(TargetTooLong):
        check_target_length(b"GET", target, max_bytes=DEFAULT_TARGET_BYTES)
    return False


def refused(use: Callable[[], object]) -> None:
    with pytest.raises(BadRequest) as refusal:
        use()
    assert len(refusal.value.message) < 4096


@pytest.mark.parametrize("half", [b"a/b", b"a/b;q=0.5", b"*/*"])
def test_f1_accept_with_many_clauses_is_not_sorted_by_insertion(half: bytes) -> None:
    def use(size: int) -> bool:
        clauses = [b"*/*"] * (size // 8) + [half] * (size // 8)
        return wants_pretty([(b"Accept", b",".join(clauses))], b"")

    assert_is_cheap(use)


@pytest.mark.parametrize("quality", [b"1" * BAR_BYTES + b"x", b"0." + b"1" * BAR_BYTES])
def test_f2_quality_of_accept_is_read_in_linear_time(quality: bytes) -> None:
    assert_is_cheap(lambda size: wants_pretty([(b"Accept", b"a/b;q=" + quality[-size:])], b""))


@pytest.mark.parametrize("parameter", [b"limit", b"timeoutSeconds"])
def test_f2_integers_of_a_query_are_read_in_linear_time(parameter: bytes) -> None:
    def use(size: int) -> None:
        before = b"/api/v1/pods?%b=" % parameter
        target = before.ljust(size - 1, b"0") + b"x"
        if is_read(target):
            parse_request_info(b"GET", target)

    assert_is_cheap(use)


@pytest.mark.parametrize(
    ("before", "unit"),
    [
        (b"labelSelector=", b"a,"),
        (b"fieldSelector=", b"a=b,"),
        (b"fieldSelector=", b"a=%5c%2c,"),
        (b"labelSelector=a%20in%20(", b"b,"),
    ],
)
def test_f5_long_selectors_are_not_read_before_authentication(before: bytes, unit: bytes) -> None:
    path = b"/api/v1/pods?" + before

    def use(size: int) -> None:
        target = path + unit * ((size - len(path)) // len(unit))
        if is_read(target):
            parsed = parse_partial_request_info(b"GET", target)
            assert not parsed.is_complete
            assert parsed.request_info.verb == "list"

    assert_is_cheap(use)


def test_f5_timeout_of_many_units_is_refused_unread() -> None:
    def use(size: int) -> None:
        target = (b"/api/v1/pods?timeout=" + b"1ns" * (size // 3))[:size]
        if is_read(target):
            request_info = parse_partial_request_info(b"GET", target).request_info
            refused(lambda: check_timeout(request_info, target))

    assert_is_cheap(use)


def test_f5_web_socket_protocols_have_a_limit_in_number() -> None:
    def use(size: int) -> None:
        headers = [(b"Sec-WebSocket-Protocol", b"," * size)]
        refused(lambda: parse_offered_protocols(headers))

    assert_is_cheap(use)


def test_check_finds_quadratic_work() -> None:
    case = Case("quadratic", lambda size: of_function(lambda: sum(range((size // 24) ** 2))))

    figures = measure(case, repeats=False)

    assert figures.growth is not None
    assert figures.growth > MOST_GROWTH
    assert figures.faults
