from proxy.upstream.identity.monitor import RecheckSignal


def test_denied_reviews_request_one_check_per_interval() -> None:
    requests: list[str] = []
    signal = RecheckSignal()
    signal.when_requested = lambda: requests.append("check")

    signal.review_denied()
    signal.review_denied()
    assert requests == ["check"]
    signal.allow()
    signal.review_denied()

    assert requests == ["check", "check"]
