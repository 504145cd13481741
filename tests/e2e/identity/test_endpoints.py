"""Who is asking decides these answers, so through the proxy they must be those given directly."""

import pytest

from tests.e2e.identity.actors import Actor
from tests.e2e.identity.endpoints import ENDPOINTS, Endpoint
from tests.e2e.identity.place import Place
from tests.support.impersonation import Doors


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
def test_an_endpoint_answers_an_actor_through_the_proxy_as_directly(
    endpoint: Endpoint, actor: Actor, place: Place, doors: Doors
) -> None:
    ours, native = (
        client.request(
            endpoint.method,
            place.fill(endpoint.target),
            headers=[*actor.wanted, *endpoint.headers],
            body=place.fill(endpoint.body),
        )
        for client in doors.clients(actor.caller)
    )

    assert ours.status == endpoint.status_for(actor), ours.body
    assert endpoint.kept(ours) == endpoint.kept(native)
    if endpoint.allows is not None:
        assert ours.json()["status"]["allowed"] == endpoint.allows(actor)
