"""Whether the API server answers: slow to doubt, quick to believe."""

from proxy.upstream.health import UpstreamHealth


class Told:
    def __init__(self) -> None:
        self.told: list[bool] = []

    def set_upstream_reachable(self, *, reachable: bool) -> None:
        self.told.append(reachable)


async def test_one_failure_is_not_believed_and_one_success_is() -> None:
    answers = iter([True, False, True, False, False, False, True])
    told = Told()

    async def ask() -> bool:
        return next(answers)

    reachability = UpstreamHealth(ask, told)
    faults = [reachability.health_error()]
    for _ in range(7):
        await reachability.probe()
        faults.append(reachability.health_error())

    is_down = [fault is not None for fault in faults]
    assert is_down == [True, False, False, False, False, True, True, False]
    assert told.told == [True, False, True]
