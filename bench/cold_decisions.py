"""What a decision costs that nobody has made before: round trips, and how long a client waits.

Every request comes from a caller that was never seen, for somebody who was never asked for, on a
connection that is open already. The native server is asked the same right before or after.
"""

import statistics
import time
from dataclasses import dataclass

from bench.control_plane import CONFIG_MAP, LEGACY, NAMED, USER_INFO, Cluster, OurProxy
from bench.measurement import WrongAnswer
from bench.round_trips import RoundTrip, most_in_one_mode
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import KeyPair

_OK = 200
_REVIEWS = "understudy_access_reviews_total"


@dataclass(frozen=True, slots=True)
class ColdCase:
    """One kind of decision."""

    name: str
    callers: str
    """The group that callers are in, and have their rights by."""
    groups: int
    most_round_trips: int
    """For each mode that is attempted."""


COLD_CASES = (
    *(ColdCase(f"user-info, {count} groups", USER_INFO, count, 2) for count in (1, 10, 100)),
    # Each group granted by its name: the star check is denied.
    ColdCase("user-info, 100 groups by name", NAMED, 100, 3),
    # A caller of whom nothing is known is tried for user-info first.
    *(ColdCase(f"legacy, {count} groups", LEGACY, count, 2) for count in (1, 10)),
)


@dataclass(frozen=True, slots=True)
class ColdFigures:
    """What came of one kind of decision; milliseconds are what the client waited."""

    round_trips: list[RoundTrip]
    us_milliseconds: list[float]
    native_milliseconds: list[float]

    @property
    def most_in_one_mode(self) -> int:
        """Return the figure that has a bar."""
        return most_in_one_mode(self.round_trips)

    def __str__(self) -> str:
        """Return a line for people."""
        us, native = (
            statistics.median(each) for each in (self.us_milliseconds, self.native_milliseconds)
        )
        sizes = "+".join(str(each.total()) for each in self.round_trips)
        return (
            f"{len(self.round_trips)} round trips ({sizes} reviews), "
            f"{us:.1f} ms, native {native:.1f} ms"
        )


def measure_cold(
    cluster: Cluster, case: ColdCase, *, times: int, counted_times: int
) -> ColdFigures:
    """Make that many decisions on both sides, and some more of which round trips are counted."""
    before = cluster.us.total(_REVIEWS)
    pairs = [_ask_both(cluster, case, number) for number in range(times)]
    if cluster.us.total(_REVIEWS) < before + 2 * times:
        raise WrongAnswer(f"{case.name}: decided without asking")
    # A stall of the machine parts what was asked together, so the least count is the true one.
    rounds = min((_count_rounds(cluster, case, number) for number in range(counted_times)), key=len)
    return ColdFigures(rounds, [us for us, _ in pairs], [native for _, native in pairs])


def _ask_both(cluster: Cluster, case: ColdCase, number: int) -> tuple[float, float]:
    name = _fresh_name(case, "timed", number)
    caller = cluster.control_plane.clients.issue_client(name, groups=(case.callers,))
    doors = [cluster.us.running.client(caller), cluster.native.client(caller)]
    # Who comes second finds a warmer machine, so they take turns in that, too.
    order = (0, 1) if number % 2 == 0 else (1, 0)
    answers = {place: _ask(doors[place], case, name) for place in order}
    (us, our_body), (native, native_body) = answers[0], answers[1]
    if our_body != native_body:
        raise WrongAnswer(f"{case.name}: {our_body!r} is not {native_body!r}")
    return us, native


def _count_rounds(cluster: Cluster, case: ColdCase, number: int) -> list[RoundTrip]:
    name = _fresh_name(case, "counted", number)
    caller: KeyPair = cluster.control_plane.clients.issue_client(name, groups=(case.callers,))
    cluster.relay.take(name)
    before = cluster.counted.total(_REVIEWS)
    _ask(cluster.counted.running.client(caller), case, name)
    rounds = cluster.relay.take(name)
    _check_reviews(case, rounds, told=cluster.counted.total(_REVIEWS) - before)
    return rounds


def _check_reviews(case: ColdCase, rounds: list[RoundTrip], *, told: float) -> None:
    """Hold the relay's count against the proxy's own, which may have some of another matter."""
    seen = sum(each.total() for each in rounds)
    if seen == 0 or told < seen:
        raise WrongAnswer(f"{case.name}: {seen} reviews went by, and the proxy tells of {told:.0f}")


def _ask(door: ApiClient, case: ColdCase, name: str) -> tuple[float, bytes]:
    """Return the milliseconds that a caller waited for the object, and the object."""
    headers = [
        ("Impersonate-User", f"wanted-by-{name}"),
        *(("Impersonate-Group", f"group-{number}") for number in range(case.groups)),
    ]
    with door.connect() as connection:
        started = time.perf_counter()
        answer = connection.request("GET", CONFIG_MAP, headers=headers)
        waited = time.perf_counter() - started
    if answer.status != _OK:
        raise WrongAnswer(f"{case.name}: {answer.status} {answer.body!r}")
    return waited * 1e3, answer.body


def _fresh_name(case: ColdCase, purpose: str, number: int) -> str:
    words = case.name.replace(",", "").replace(" ", "-")
    return f"{purpose}-{words}-{number}"
