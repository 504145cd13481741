"""What a hostile backend can do to callers that never asked for it: nothing."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from tests.e2e.backends.answers import NEVER_SEEN, answer, chunked
from tests.e2e.backends.framing import BODILESS, FRAMING, INTERIM
from tests.e2e.backends.heads import STATUSES
from tests.e2e.backends.refusals import REFUSALS
from tests.e2e.backends.stage import REVIEW, Stage, who
from tests.support.hostile_backend import Received, Script, Then
from tests.support.impersonation import poll

pytestmark = pytest.mark.timeout(60)

EARLY_HINTS = answer("Link: </a>", status="103 Early Hints", body=b"", length=False)
ENDLESS = {
    "interim-answers": (EARLY_HINTS * 50,),
    "chunks-of-one-byte": (chunked(end=b""), b"1\r\nx\r\n"),
    "half-a-denial": (
        chunked(
            b'10\r\n{"kind":"Status"\r\n', end=b"", lines=("Content-Type: application/json",)
        ).replace(b"200 OK", b"403 Forbidden"),
        b"1\r\n \r\n",
    ),
}
# Far above what was measured (0.05 s on two busy cores); without a bound it was 20 s and more.
PATIENCE_SECONDS = 3.0
THREADS, ROUNDS = 6, 15
# So little that kube-apiserver has passed nothing on when it learns that the rest does not come.
HALF_AN_ANSWER = answer("Content-Length: 50", length=False)


@pytest.mark.parametrize("stream", ENDLESS)
def test_an_endless_answer_keeps_nobody_waiting(backends: Stage, stream: str) -> None:
    script = Script(ENDLESS[stream], is_endless=True)
    number, target = backends.new_case("service", script)

    def measure() -> float:
        slowest = 0.0
        with backends.connect("proxy", "alice") as hostile:
            hostile.send("GET", target)
            for _ in range(20):
                started = time.monotonic()
                with backends.connect("proxy", "bob") as client:
                    assert who(client) == "bob"
                slowest = max(slowest, time.monotonic() - started)
        return slowest

    slowest = backends.namespace.run(measure)

    assert backends.received_any(number)
    assert slowest < PATIENCE_SECONDS
    assert backends.backend.has_left(number).wait(10), "the backend is still being listened to"


def test_interim_answers_without_an_end_are_a_502(backends: Stage) -> None:
    number, target = backends.new_case("node", Script((EARLY_HINTS * 50,), is_endless=True))

    def ask() -> tuple[int, bool]:
        with backends.connect("proxy", "alice") as client:
            client.send("GET", target)
            seen = client.read()
            return seen.status, who(client) == "alice"

    assert backends.namespace.run(ask) == (502, True)
    assert backends.received_any(number)


@pytest.mark.parametrize("route", ["service", "node", "aggregated"])
@pytest.mark.parametrize("sent", [b"", HALF_AN_ANSWER], ids=["nothing", "half"])
def test_a_write_is_not_repeated_for_a_backend_that_breaks_off(
    backends: Stage, route: str, sent: bytes
) -> None:
    """kube-apiserver breaks a reused connection off without a word; a GET would be repeated."""
    number, target = backends.new_case(route, Script((sent,), Then.CLOSE))

    def ask() -> int:
        with backends.connect("proxy", "alice") as client:
            assert who(client) == "alice"
            # Without a body it could be repeated; that it may have been done forbids it.
            client.send("POST", target)
            return client.read("POST").status

    backends.namespace.run(ask)

    assert len(backends.backend.received(number)) == 1


def test_answers_of_backends_and_of_callers_are_never_mixed_up(backends: Stage) -> None:
    """Some callers are answered by hostile backends while others ask who they are."""
    smuggling = [
        FRAMING["second-answer-behind-the-first"].script,
        FRAMING["second-answer-behind-the-last-chunk"].script,
    ]
    hostile = [
        *smuggling,
        FRAMING["chunks-without-an-end"].script,
        FRAMING["body-shorter-than-its-length"].script,
        BODILESS["304-with-a-body"].script,
        INTERIM["101-unasked"].script,
        REFUSALS["401-plain"].script,
        STATUSES["status-000"].script,
        Script((), make=_target_as_body),
    ]
    two_answers: set[int] = set()
    taken_for_another: list[int] = []

    def worker(seed: int) -> None:
        choice = random.Random(seed)
        user = "alice" if seed % 2 else "bob"
        for _ in range(ROUNDS):
            with backends.connect("proxy", "alice") as client:
                route = choice.choice(("service", "node", "aggregated"))
                script = choice.choice(hostile)
                number, target = backends.new_case(route, script)
                if script in smuggling:
                    two_answers.add(number)
                client.send("GET", target)
                seen = client.read()
                if _follows(backends, number, two_answers):
                    taken_for_another.append(number)
                    continue
                assert NEVER_SEEN not in seen.body
                if script.make is not None:
                    assert (seen.status, seen.body) == (200, target.rpartition("/")[2].encode())
            with backends.connect("proxy", user) as client:
                assert [who(client) for _ in range(2)] == [user, user]

    def crowd() -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(worker, range(THREADS)))

    backends.namespace.run(crowd)

    assert len(taken_for_another) <= THREADS


def _follows(backends: Stage, number: int, two_answers: set[int]) -> bool:
    """Tell whether kube-apiserver sent a request where a second answer was already waiting.

    Go's client notices bytes on an idle connection unless a request takes the connection first.
    Then it reads the waiting answer as that request's own. Both are of the same backend.
    """
    received: list[Received] = []

    def is_reached() -> bool:
        received.extend(backends.backend.received(number))
        return bool(received)

    # The answer that was waiting may arrive here before the request arrives at the backend.
    poll(is_reached, "the backend was not reached")
    return any(two_answers.intersection(one.earlier) for one in received)


def test_refusals_of_a_backend_cost_few_questions_about_the_proxy(backends: Stage) -> None:
    """A 401 has the proxy ask how its own credential stands: once a second, not once an answer."""
    script = REFUSALS["401-plain"].script
    asked = _asked_by_the_forwarder(backends)
    before = asked()
    started = time.monotonic()

    def ask() -> list[int]:
        statuses = []
        with backends.connect("proxy", "alice") as client:
            for _ in range(60):
                client.send("GET", backends.new_case("service", script)[1])
                statuses.append(client.read().status)
        return statuses

    statuses = backends.namespace.run(ask)

    assert statuses == [HTTPStatus.UNAUTHORIZED] * 60
    assert asked() - before <= time.monotonic() - started + 2


def _target_as_body(request: Received) -> bytes:
    return answer(body=request.target.rpartition("/")[2].encode())


def _asked_by_the_forwarder(backends: Stage) -> Callable[[], int]:
    """Return what counts the forwarder's reviews of itself in the API server's own log."""

    def count() -> int:
        lines = backends.server.audit_log.read_text().splitlines()
        mine = (line for line in lines if REVIEW in line and '"impersonatedUser"' not in line)
        return sum('"username":"understudy-forwarder"' in line for line in mine)

    return count
