import pytest

from proxy.concurrency.circuit_breaker import FAILURES_TO_SUSPECT, CircuitBreaker
from proxy.core.errors import UpstreamUnavailable


class Probed:
    """A breaker, and how often it asked for a probe."""

    def __init__(self) -> None:
        self.requests = 0
        self.breaker = CircuitBreaker(self._request)

    def _request(self) -> None:
        self.requests += 1

    def fail(self, times: int = FAILURES_TO_SUSPECT) -> None:
        for _ in range(times):
            self.breaker.failed()


@pytest.fixture
def probed() -> Probed:
    return Probed()


@pytest.fixture
def opened(probed: Probed) -> Probed:
    probed.fail()
    probed.breaker.on_probe(answered=False)
    assert probed.breaker.is_open
    return probed


def test_few_failed_reviews_ask_for_no_probe(probed: Probed) -> None:
    probed.fail(FAILURES_TO_SUSPECT - 1)

    assert probed.requests == 0
    probed.breaker.check()


def test_failed_reviews_alone_never_open_the_breaker(probed: Probed) -> None:
    probed.fail(1000)

    assert probed.requests > 0
    assert not probed.breaker.is_open
    probed.breaker.check()


def test_a_probe_that_is_answered_keeps_the_breaker_closed(probed: Probed) -> None:
    probed.fail()
    probed.breaker.on_probe(answered=True)
    probed.fail(FAILURES_TO_SUSPECT - 1)
    probed.breaker.on_probe(answered=False)

    assert not probed.breaker.is_open


def test_a_failed_probe_alone_never_opens_the_breaker(probed: Probed) -> None:
    probed.breaker.on_probe(answered=False)

    assert not probed.breaker.is_open


def test_failed_reviews_and_then_a_failed_probe_open_the_breaker(
    probed: Probed, caplog: pytest.LogCaptureFixture
) -> None:
    probed.fail()
    probed.breaker.on_probe(answered=False)

    with pytest.raises(UpstreamUnavailable) as refused:
        probed.breaker.check()

    assert refused.value.code == 503
    assert refused.value.retry_after_seconds == 1
    assert [record.message for record in caplog.records] == ["review breaker opened"]


def test_an_answered_review_in_between_starts_the_count_anew(probed: Probed) -> None:
    probed.fail(FAILURES_TO_SUSPECT - 1)
    probed.breaker.succeeded()
    probed.fail(1)
    probed.breaker.on_probe(answered=False)

    assert not probed.breaker.is_open


def test_a_review_that_is_answered_while_the_probe_runs_keeps_it_closed(probed: Probed) -> None:
    probed.fail()
    probed.breaker.succeeded()
    probed.breaker.on_probe(answered=False)

    assert not probed.breaker.is_open


def test_an_open_breaker_stays_open_until_a_probe_is_answered(opened: Probed) -> None:
    opened.breaker.on_probe(answered=False)
    with pytest.raises(UpstreamUnavailable):
        opened.breaker.check()

    opened.breaker.on_probe(answered=True)

    opened.breaker.check()


def test_a_review_that_is_answered_closes_an_open_breaker(opened: Probed) -> None:
    opened.breaker.succeeded()

    opened.breaker.check()


def test_late_failures_of_an_open_breaker_ask_for_no_more_probes(opened: Probed) -> None:
    before = opened.requests

    opened.fail()

    assert opened.requests == before
