"""What the published attacks cost the event loop, each sent to a real proxy."""

from collections.abc import Iterator

import pytest

from tests.complexity.measuring import BAR_BYTES, MOST_MILLISECONDS
from tests.complexity.served_proxy import ServedProxy, served_proxy
from tests.support.attacks import (
    Attack,
    accept_clauses,
    accept_quality,
    attacker_context,
    escaped_timeout,
    exec_query,
    field_selector,
    hostile_chain,
    integer_parameter,
    label_selector,
    many_header_lines,
    timeout_parts,
    websocket_protocols,
)
from tests.support.certificates import Certificates

RUNS = 5
# A handshake of a plain client costs about 3 ms with its request. The published chain cost 66.
MOST_RATIO = 2.0
REQUESTS = {
    attack.name.replace(" ", "_").lower(): attack
    for attack in (
        accept_clauses(),
        accept_quality(),
        integer_parameter("limit"),
        integer_parameter("timeoutSeconds"),
        label_selector(),
        field_selector(),
        timeout_parts(),
        websocket_protocols(),
        escaped_timeout(),
        exec_query(),
        many_header_lines(),
    )
}

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServedProxy, Certificates]]:
    with served_proxy(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.mark.parametrize("attack", REQUESTS.values(), ids=REQUESTS.keys())
def test_published_request_costs_no_more_than_its_bytes_may(
    served: tuple[ServedProxy, Certificates], attack: Attack
) -> None:
    client = served[0].connect(attacker_context(attack))

    cheapest = min(client.cost(attack.request) for _ in range(RUNS)) / 1e6

    client.close()
    assert cheapest <= MOST_MILLISECONDS * max(1.0, len(attack.request) / BAR_BYTES)


def test_f9_hostile_chain_costs_no_more_than_a_plain_one(
    served: tuple[ServedProxy, Certificates],
) -> None:
    proxy, certificates = served
    plain, hostile = certificates.client_context("alice"), attacker_context(hostile_chain())
    proxy.handshake_cost(plain)  # fills caches

    costs = [(proxy.handshake_cost(plain), proxy.handshake_cost(hostile)) for _ in range(RUNS)]

    cheapest_plain, cheapest_hostile = (min(one) for one in zip(*costs, strict=True))
    assert cheapest_hostile <= MOST_RATIO * cheapest_plain, costs
