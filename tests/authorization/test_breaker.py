import pytest

from proxy.authorization.breaker import Breaker
from proxy.core.errors import UpstreamUnavailable
from tests.support.clock import FakeClock


def opened(clock: FakeClock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(5):
        breaker.failed()
    return breaker


def test_a_few_failures_let_questions_pass() -> None:
    breaker = Breaker(FakeClock())

    for _ in range(4):
        breaker.failed()

    breaker.check()
    assert not breaker.is_open


def test_many_failures_in_a_row_stop_questions_at_once() -> None:
    breaker = opened(FakeClock())

    with pytest.raises(UpstreamUnavailable) as refused:
        breaker.check()

    assert refused.value.code == 503
    assert refused.value.retry_after_seconds == 1


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(FakeClock())

    for _ in range(4):
        breaker.failed()
    breaker.succeeded()
    breaker.failed()

    assert not breaker.is_open


def test_an_open_breaker_lets_one_question_through_each_second() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    clock.advance(1.0)

    breaker.check()

    with pytest.raises(UpstreamUnavailable):
        breaker.check()
    clock.advance(1.0)
    breaker.check()


def test_an_answer_closes_it() -> None:
    breaker = opened(FakeClock())

    breaker.succeeded()

    breaker.check()
