"""Which 403 is about the forwarder, given the request that it answers."""

import json

from prometheus_client import CollectorRegistry

from proxy.core.errors import StatusError
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import DeniedRequest, ProxyDenialDetector
from tests.support.clock import FakeClock
from tests.upstream.denials import NothingMissing

FORMER, FORWARDER = "former-forwarder", "forwarder"
PODS = b"/api/v1/pods"


def denial_of(name: str) -> bytes:
    message = (
        f'users "bob" is forbidden: User "{name}" cannot impersonate resource "users" in API group'
        ' "" at the cluster scope'
    )
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": "Forbidden",
            "details": {"name": "bob", "kind": "users"},
            "code": 403,
        }
    ).encode()


def judged(name: str, *, acting: str, target: bytes = PODS) -> StatusError | None:
    """Return what a client is told when the API server denies this name something."""
    counter = UpstreamMetrics(CollectorRegistry())
    denials = ProxyDenialDetector(NothingMissing(), counter=counter, clock=FakeClock())
    denials.add_username(FORMER)
    denials.add_username(FORWARDER)
    told: list[StatusError | None] = []

    request = DeniedRequest(b"GET", target, is_upgrade=False, impersonated_user=UserInfo(acting))
    denials.resolve("application/json", denial_of(name), request, told.append)

    (answer,) = told
    return answer


def test_denial_of_the_forwarder_is_its_own() -> None:
    assert judged(FORWARDER, acting="bob") is not None
    assert judged(FORMER, acting="bob") is not None


def test_denial_of_the_acting_user_is_the_clients_even_under_a_former_name() -> None:
    assert judged("bob", acting="bob") is None
    assert judged(FORMER, acting=FORMER) is None


def test_denial_of_a_request_with_many_selector_terms_is_judged_as_any_other() -> None:
    target = PODS + b"?labelSelector=a" + b",a" * 5000

    assert judged(FORWARDER, acting="bob", target=target) is not None
