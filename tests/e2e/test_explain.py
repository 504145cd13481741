"""Advice and reality: what explain and can-i say of generated requests, and what the proxy does."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from proxy.sandbox.api_client import APIResponse
from proxy.sandbox.programs.binaries import Binaries
from tests.explain_parity.command import Desk
from tests.explain_parity.generated import Seat, caller_of, seats
from tests.explain_parity.trial import Bench, Tally
from tests.parity.arena import Arena, Stage, Variant, running_stage
from tests.parity.audit_tail import Event
from tests.parity.cases import Half
from tests.parity.observations import is_audited
from tests.support.impersonation import is_refused_impersonation
from tests.support.sizes import SOAK_SECONDS, sized, soak

SEED = 10
SPARE_TOKEN_USERS = 1000
# Odd, so that callers with rights and without take turns.
STRIDE = sized(9, full=1)


@pytest.fixture(scope="module")
def parity_stage(binaries: Binaries) -> Iterator[Stage]:
    with running_stage(binaries, token_users=SPARE_TOKEN_USERS) as stage:
        yield stage


@pytest.fixture(scope="module", params=[Half.RBAC, Half.WEBHOOK])
def arena(parity_stage: Stage, request: pytest.FixtureRequest) -> Iterator[Arena]:
    with parity_stage.arena(request.param, Variant()) as running:
        yield running


def desk_of(arena: Arena) -> Desk:
    server = arena.servers[1]
    kubeconfig = server.kubeconfig_for(arena.control_plane.admin, name="advice-admin")
    assert arena.proxy is not None
    return Desk(kubeconfig, arena.proxy.config_file)


def event_of(arena: Arena, audit_id: str) -> Event:
    return arena.subject.audit.collect([audit_id], audit_id)[audit_id]


def is_forbidden(response: APIResponse, event: Event) -> bool | None:
    """Tell whether somebody lacked a right; None for requests that did not come to that."""
    if "kube-understudy.io/upstream-code" not in event.get("annotations", {}):
        return True if response.status == 403 else None
    # What is forbidden for other reasons (admission) is worded otherwise.
    return response.status == 403 and " cannot " in response.json()["message"]


@soak
@pytest.mark.timeout(SOAK_SECONDS)
def test_can_i_says_what_a_real_request_is_told(arena: Arena) -> None:
    wanted = sized(30, full=250)
    seen: Counter[str] = Counter()
    with closing(seats(arena, seed=SEED, stride=STRIDE)) as taken:
        for seat in taken:
            seen[compare(arena, seat)] += 1
            if seen["yes"] + seen["no"] >= wanted:
                break

    sys.stdout.write(f"can-i, {arena.half}: {dict(seen)}\n")
    assert seen["yes"] > wanted / 10
    assert seen["no"] > wanted / 10


def compare(arena: Arena, seat: Seat) -> str:
    response, audit_id = seat.send_first()
    if not is_audited(response, audit_id):
        return "malformed"
    event = event_of(arena, audit_id)
    forbidden = is_forbidden(response, event)
    if forbidden is None:
        return "malformed"
    question = seat.question

    said = desk_of(arena).can_i(
        caller_of(event), question.wanted_user, question.method, question.target
    )

    told = said.document()
    assert told["allowed"] is not forbidden, (question, told, response.body)
    assert said.code == (1 if forbidden else 0)
    return "no" if forbidden else "yes"


@soak
@pytest.mark.timeout(SOAK_SECONDS)
@pytest.mark.parametrize("arena", [Half.RBAC], indirect=True)
def test_what_explain_prints_allows_exactly_what_was_denied(arena: Arena) -> None:
    wanted, tally = sized(60, full=500), Tally()
    bench = Bench(arena.servers[1].admin, desk_of(arena), tally)

    with closing(seats(arena, seed=SEED + 1, stride=STRIDE)) as taken:
        for seat in taken:
            response, audit_id = seat.send_first()
            if is_refused_impersonation(response):
                caller = caller_of(event_of(arena, audit_id))
                bench.hold(caller, seat.question, seat.send, has_rights=seat.has_rights)
            if tally.fixed >= wanted:
                break

    sys.stdout.write(f"explain: {tally}\n")
    assert tally.fixed == wanted
    assert tally.neighbours.total() > 3 * wanted
    assert tally.hopeless.total() > 0
