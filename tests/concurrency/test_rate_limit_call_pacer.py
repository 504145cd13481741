from proxy.concurrency.rate_limit import CallPacer


def test_a_burst_and_then_one_at_a_time_and_a_burst_again_after_a_rest() -> None:
    now = 100.0
    throttle = CallPacer(10, 3, lambda: now)

    at_once = [round(throttle.delay(), 3) for _ in range(5)]
    now += 60
    later = [round(throttle.delay(), 3) for _ in range(4)]

    assert at_once == [0.0, 0.0, 0.0, 0.1, 0.2]
    assert later == [0.0, 0.0, 0.0, 0.1]
