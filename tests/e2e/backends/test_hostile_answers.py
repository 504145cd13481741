"""Hostile answers of backends behind the API server: each is seen as it is seen without the proxy.

Every case asserts that the backend was reached, by the request that it recorded.
"""

import re

import pytest

from tests.e2e.backends import bodies, framing, heads, refusals
from tests.e2e.backends.answers import NEVER_SEEN, Case
from tests.e2e.backends.stage import Exchange, Pair, Stage
from tests.support.raw_client import Seen

pytestmark = pytest.mark.timeout(60)

# Different for each request, or of one hop; kube-apiserver lets some of those pass.
NOT_COMPARED = frozenset(
    ("audit-id", "date", "connection", "trailer", "transfer-encoding", "upgrade")
)
IDENTITY = re.compile(
    r"impersonate|authorization|proxy-authorization|cookie|x-remote-", re.IGNORECASE
)
PORTS = re.compile(rb":[0-9]+-(?:>|\\u003e)")
BAD_GATEWAY, SWITCHING = 502, 101


def each(table: dict[str, Case]) -> pytest.MarkDecorator:
    """Run a test for each answer of a table, on each of its routes."""
    rows = [
        pytest.param(case, route, id=f"{name}-{route}")
        for name, case in table.items()
        for route in case.routes
    ]
    return pytest.mark.parametrize(("case", "route"), rows)


@each(framing.FRAMING)
def test_odd_framing_is_seen_as_without_the_proxy(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(heads.HEADS)
def test_an_odd_head_is_seen_as_without_the_proxy(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(heads.STATUSES)
def test_an_odd_status_is_seen_as_without_the_proxy(
    backends: Stage, case: Case, route: str
) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(framing.BODILESS)
def test_a_body_where_none_may_be_is_dropped(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(framing.INTERIM)
def test_interim_answers_change_nothing(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(heads.REDIRECTS)
def test_a_redirect_is_passed_on_and_not_followed(backends: Stage, case: Case, route: str) -> None:
    pair = backends.play(route, case.script, case.request)

    check(pair, case, route)
    assert len(pair.through.received) == 1


@each(bodies.BODIES)
def test_an_odd_body_is_seen_as_without_the_proxy(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(refusals.UPGRADES)
def test_what_refuses_an_upgrade_is_seen_as_without_the_proxy(
    backends: Stage, case: Case, route: str
) -> None:
    check(backends.play(route, case.script, case.request), case, route)


@each(refusals.DENIALS)
def test_a_denial_that_names_the_proxy_is_the_backends_own(
    backends: Stage, case: Case, route: str
) -> None:
    before = backends.log().count("proxy permission missing")

    pair = backends.play(route, case.script, case.request)

    check(pair, case, route)
    assert backends.log().count("proxy permission missing") == before


@each(refusals.REFUSALS)
def test_a_refusal_of_a_backend_is_the_callers(backends: Stage, case: Case, route: str) -> None:
    check(backends.play(route, case.script, case.request), case, route)


def check(pair: Pair, case: Case, route: str) -> None:
    """Fail unless both clients saw the same, and the backend received the same."""
    direct, through = pair.direct, pair.through
    assert direct.received, "the backend was not reached directly"
    assert through.received, "the backend was not reached through the proxy"
    check_received(direct, through, route)
    if case.is_refused:
        assert direct.seen.status == 200
        check_broken(through.seen)
    else:
        check_seen(direct.seen, through.seen)
    check_audit_id(through)
    for exchange in (direct, through):
        assert NEVER_SEEN not in exchange.seen.body


def check_seen(direct: Seen, through: Seen) -> None:
    """Fail unless the proxy's client saw what the other one saw."""
    assert through.trailers == b""
    if not direct.is_complete or direct.status == SWITCHING:
        check_broken(through, direct)
        return
    assert through.status == direct.status
    assert through.is_complete
    assert compared(through) == compared(direct)
    assert PORTS.sub(b"", through.body) == PORTS.sub(b"", direct.body)


def check_broken(through: Seen, direct: Seen | None = None) -> None:
    """Fail unless an answer was cut, or refused by the proxy before any of it was passed on.

    Whether kube-apiserver breaks off before or after the head is a matter of time.
    """
    if through.status == BAD_GATEWAY:
        assert through.is_complete
        assert b'"code":502' in through.body
        return
    assert not through.is_complete
    assert direct is not None
    if direct.status:
        assert through.status == direct.status
        shorter, longer = sorted((through.body, direct.body), key=len)
        assert longer.startswith(shorter)


def check_received(direct: Exchange, through: Exchange, route: str) -> None:
    """Fail if the backend is told anything of the proxy but a forwarded address and an id."""
    told = {name for request in through.received for name, _ in request.headers}
    usual = {name for request in direct.received for name, _ in request.headers}
    assert told - usual <= {"audit-id"}
    said = [line for line in through.received[0].headers if IDENTITY.match(line[0])]
    if route == "aggregated":
        usually = [line for line in direct.received[0].headers if IDENTITY.match(line[0])]
        assert said == usually
        assert ("x-remote-user", "alice") in said
        assert {name for name, _ in said} == {"x-remote-user", "x-remote-group"}
    else:
        assert said == []
    for mine, other in zip(through.received, direct.received, strict=False):
        assert (mine.target, mine.body) == (other.target, other.body)


def check_audit_id(through: Exchange) -> None:
    """Fail unless the client is told the one id that the request was forwarded under."""
    if through.seen.status == 0:
        return
    ids = through.seen.values("audit-id")
    assert len(ids) == 1
    forwarded = through.received[0].values("audit-id")
    assert forwarded in ([], ids)


def compared(seen: Seen) -> list[tuple[str, str]]:
    """Return the headers that both clients have to see alike."""
    named = {name.strip().lower() for name in ",".join(seen.values("connection")).split(",")}
    dropped = NOT_COMPARED | (named - {"content-length"})
    lines = ((name.lower(), value) for name, value in seen.headers)
    return sorted(line for line in lines if line[0] not in dropped)
