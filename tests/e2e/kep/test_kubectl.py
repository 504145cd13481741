"""kubectl as it is: no new headers, and discovery is impersonated like everything else."""

from functools import partial
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy
from tests.support.impersonation import DISCOVERY, Caller, Rights, may, may_be, may_do, may_visit
from tests.support.kubectl import Kubectl
from tests.support.old_kubectl import old_kubectl
from tests.support.proxy_and_native import BothDoors, Said


@pytest.fixture(params=["1.37", "1.20"])
def program(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Path:
    return old_kubectl() if request.param == "1.20" else control_plane.binaries.kubectl


@pytest.fixture
def kubectl(program: Path, understudy: Understudy, native_api_server: ApiServer) -> BothDoors:
    """kubectl at our door; the native server must make it say the same."""
    return BothDoors(partial(Kubectl, program), understudy.process, native_api_server)


@pytest.fixture
def bob(cast: Cast, rights: Rights) -> Caller:
    target = cast.user("bob")
    rights.grant(target, may("get", "list"))
    return target


@pytest.fixture
def impersonator(cast: Cast, rights: Rights, bob: Caller) -> Caller:
    """May get and list pods as bob, and nothing else: no discovery."""
    caller = cast.user("impersonator")
    rights.grant(caller, may_be("user-info", "users", bob.name))
    rights.grant(caller, may_do("user-info", "get", "list"))
    return caller


def test_discovery_needs_permissions_of_its_own(
    impersonator: Caller, bob: Caller, kubectl: BothDoors, rights: Rights
) -> None:
    without = kubectl.say(impersonator, "get", "pods", "-n", "default", f"--as={bob.name}")
    rights.grant(impersonator, may_visit("user-info", *DISCOVERY))
    having = kubectl.say(impersonator, "get", "pods", "-n", "default", f"--as={bob.name}")

    assert without.code == 1
    assert having == Said(0, "", "No resources found in default namespace.\n")


def test_a_refused_action_is_told_in_the_native_words(
    impersonator: Caller, bob: Caller, kubectl: BothDoors, rights: Rights
) -> None:
    rights.grant(impersonator, may_visit("user-info", *DISCOVERY))

    refused = kubectl.say(impersonator, "get", "secrets", "-n", "default", f"--as={bob.name}")

    assert refused.code == 1
    assert "Error from server (Forbidden): secrets is forbidden" in refused.errors
    assert "cannot impersonate-on:user-info:list" in refused.errors


def test_groups_are_asked_for_by_the_flag_they_always_had(
    impersonator: Caller, bob: Caller, kubectl: BothDoors, rights: Rights
) -> None:
    rights.grant(impersonator, may_be("user-info", "groups", "dev"))
    path = "/api/v1/namespaces/default/pods?labelSelector=none"
    raw = ("get", "--raw", path, f"--as={bob.name}")

    allowed = kubectl.say(impersonator, *raw, "--as-group=dev")
    refused = kubectl.say(impersonator, *raw, "--as-group=ops")

    assert allowed.code == 0
    assert refused.code == 1
    assert 'groups.authentication.k8s.io "ops" is forbidden' in refused.errors
