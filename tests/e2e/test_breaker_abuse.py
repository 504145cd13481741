"""Reviews that a caller makes impossible, at the real API server: they cost that caller alone."""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.impersonation import Rights, as_user, may_impersonate, poll

REQUESTS = 40
SERVED = "served"
CONNECTIONS = 4
# Each answer to another caller shows that reviews are answered: the attacker has to have the proxy
# to itself for a moment.
PAUSE_SECONDS = 4.0
PODS = "/api/v1/namespaces/n1/pods"
# The published attack has one requirement 75 000 times: a review of it has more than 3 MiB. The
# others are the largest requests that reach the selectors and the API server.
ATTACKS: dict[str, tuple[str, int]] = {
    "published": (f"{PODS}?labelSelector={'a,' * 75_000}a", 414),
    "selector of the largest target": (f"{PODS}?labelSelector={'a,' * 32_000}a", 400),
    "review of the largest target": (f"{PODS}/{'p' * 65_000}", 403),
}


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("breaker-abuse")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("target", "status"), ATTACKS.values(), ids=ATTACKS.keys())
def test_f4_reviews_that_the_api_server_refuses_leave_other_callers_alone(
    understudy: Understudy,
    control_plane: ControlPlane,
    admin: ApiClient,
    plain_api_server: ApiServer,
    target: str,
    status: int,
) -> None:
    cast = Cast(control_plane, admin)
    bob, mallory = cast.user("bob"), cast.user("mallory")
    Rights(plain_api_server).grant(bob, may_impersonate("users"))
    numbers = itertools.count()

    def asks_uncached(client: ApiClient) -> str:
        wanted = as_user(f"somebody-{next(numbers)}")
        answer = client.request("GET", "/version", headers=wanted)
        return SERVED if answer.status == 200 else answer.json()["message"]

    served = understudy.client(bob.credential)
    poll(lambda: asks_uncached(served) == SERVED, "bob is not served")
    told: Counter[int] = Counter()

    def attack(name: int) -> None:
        client = understudy.client(mallory.credential)
        for number in range(REQUESTS // CONNECTIONS):
            wanted = as_user(f"nobody-{name}-{number}")
            # A target that is too long costs its connection.
            told[client.request("GET", target, headers=wanted).status] += 1

    attackers = [threading.Thread(target=attack, args=[name]) for name in range(CONNECTIONS)]
    for attacker in attackers:
        attacker.start()
    others: Counter[str] = Counter()
    while any(attacker.is_alive() for attacker in attackers):
        others[asks_uncached(served)] += 1
        attackers[0].join(PAUSE_SECONDS)
    others.update(asks_uncached(served) for _ in range(20))

    assert set(others) == {SERVED}
    # No outage is reported to the attacker either: it is told what is wrong with its request.
    assert set(told) == {status}
    assert told.total() == REQUESTS
    assert "review breaker opened" not in understudy.log()
