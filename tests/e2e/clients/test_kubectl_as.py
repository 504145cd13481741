"""kubectl --as, --as-group, --as-uid and --as-user-extra: allowed and denied as natively."""

import json
from pathlib import Path

import pytest

from tests.e2e.kep.cast import Cast
from tests.support.impersonation import (
    DISCOVERY,
    Caller,
    Rights,
    may,
    may_ask_who,
    may_be,
    may_do,
    may_impersonate,
    may_visit,
)
from tests.support.kubelet import FakeKubelet
from tests.support.proxy_and_native import BothDoors, Said

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

PODS = "/api/v1/namespaces/default/pods?labelSelector=none"
REVIEWS, AUTHORIZATION = ["selfsubjectaccessreviews"], "authorization.k8s.io"
REASON = "example.com/reason"


@pytest.fixture
def bob(cast: Cast, rights: Rights) -> Caller:
    target = cast.user("bob")
    streams = ["pods/exec", "pods/portforward"]
    rights.grant(target, may("get", "list"), may("create", "get", resources=streams))
    return target


@pytest.fixture
def deputy(cast: Cast, rights: Rights, bob: Caller) -> Caller:
    """May see pods and ask who it is as bob, of dev and qa, 42, for an audit; no more."""
    caller = cast.user("deputy")
    rights.grant(
        caller,
        may_be("user-info", "users", bob.name),
        may_be("user-info", "groups", "dev", "qa"),
        may_be("user-info", "uids", "42"),
        may_be("user-info", f"userextras/{REASON}", "audit"),
        may_do("user-info", "get", "list"),
        may_ask_who("user-info"),
        may_visit("user-info", *DISCOVERY),
    )
    return caller


def test_the_user_and_its_groups_are_asked_for_by_every_kubectl(
    kubectl: BothDoors, deputy: Caller, bob: Caller
) -> None:
    pods = ("get", "pods", "-n", "no-such-namespace", f"--as={bob.name}")

    alone = kubectl.say(deputy, *pods)
    with_group = kubectl.say(deputy, *pods, "--as-group=dev")
    with_another = kubectl.say(deputy, *pods, "--as-group=dev", "--as-group=ops")

    nothing = Said(0, "", "No resources found in no-such-namespace namespace.\n")
    assert [alone, with_group] == [nothing] * 2
    assert with_another.code == 1


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        (("--as={}", "--as-group=ops"), 'groups.authentication.k8s.io "ops" is forbidden'),
        (("--as=carol", "--as-group=dev"), 'users.authentication.k8s.io "carol" is forbidden'),
        (("--as=system:serviceaccount:a:b",), "impersonate-on:serviceaccount:list"),
    ],
)
def test_an_identity_beyond_the_leave_is_refused_to_every_kubectl(
    kubectl: BothDoors, deputy: Caller, bob: Caller, flags: tuple[str, ...], refused: str
) -> None:
    acting = [flag.format(bob.name) for flag in flags]

    said = kubectl.say(deputy, "get", "--raw", PODS, *acting)

    assert said.code == 1
    assert said.errors.startswith("Error from server (Forbidden): ")
    assert refused in said.errors


def test_all_four_flags_together_make_the_identity(
    new_kubectl: BothDoors, deputy: Caller, bob: Caller
) -> None:
    groups = ("--as-group=dev", "--as-group=qa")
    flags = (*groups, "--as-uid=42", f"--as-user-extra={REASON}=audit")

    said = new_kubectl.say(deputy, "auth", "whoami", "-o", "json", f"--as={bob.name}", *flags)

    assert said.code == 0, said.errors
    assert json.loads(said.output)["status"]["userInfo"] == {
        "username": bob.name,
        "uid": "42",
        "groups": ["dev", "qa", "system:authenticated"],
        "extra": {REASON: ["audit"]},
    }


@pytest.mark.parametrize(
    ("flag", "refused"),
    [
        ("--as-group=ops", 'groups.authentication.k8s.io "ops" is forbidden'),
        ("--as-group=system:masters", "is forbidden"),
        ("--as-uid=43", 'uids.authentication.k8s.io "43" is forbidden'),
        (f"--as-user-extra={REASON}=fun", 'userextras.authentication.k8s.io "fun" is forbidden'),
        ("--as-user-extra=plain=audit", "is forbidden"),
    ],
)
def test_one_flag_too_many_is_refused_in_the_native_words(
    new_kubectl: BothDoors, deputy: Caller, bob: Caller, flag: str, refused: str
) -> None:
    said = new_kubectl.say(deputy, "get", "--raw", PODS, f"--as={bob.name}", flag)
    asked_who = new_kubectl.say(deputy, "auth", "whoami", f"--as={bob.name}", flag)

    assert (said.code, asked_who.code) == (1, 1)
    assert said.errors.startswith("Error from server (Forbidden): ")
    assert refused in said.errors


def test_what_another_may_do_is_asked_with_leave_to_ask(
    kubectl: BothDoors, deputy: Caller, bob: Caller, rights: Rights
) -> None:
    question = ("auth", "can-i", f"--as={bob.name}", "-n", "default")

    refused = kubectl.say(deputy, *question, "list", "pods")
    rights.grant(deputy, may_do("user-info", "create", resources=REVIEWS, group=AUTHORIZATION))
    may_list = kubectl.say(deputy, *question, "list", "pods")
    may_delete = kubectl.say(deputy, *question, "delete", "pods")

    assert refused.code == 1
    assert "cannot impersonate-on:user-info:create" in refused.errors
    assert may_list == Said(0, "yes\n")
    assert (may_delete.code, may_delete.output) == (1, "no\n")


def test_flags_without_a_user_are_refused_alike(new_kubectl: BothDoors, deputy: Caller) -> None:
    said = new_kubectl.say(deputy, "get", "--raw", "/version", "--as-group=dev")

    assert said.code == 1


def test_the_same_rights_of_old_reach_every_flag(
    new_kubectl: BothDoors, cast: Cast, rights: Rights, bob: Caller
) -> None:
    caller = cast.user("legacy")
    rights.grant(
        caller,
        may_impersonate("users", bob.name),
        may_impersonate("groups", "dev"),
        may_impersonate("uids", "42"),
        may_impersonate("userextras/plain", "audit"),
    )
    flags = (f"--as={bob.name}", "--as-group=dev", "--as-uid=42")

    allowed = new_kubectl.say(caller, "auth", "whoami", *flags, "--as-user-extra=plain=audit")
    refused = new_kubectl.say(caller, "auth", "whoami", *flags, "--as-user-extra=plain=fun")

    assert (allowed.code, refused.code) == (0, 1)
    assert "you do not have permission" in refused.errors


def test_exec_as_another_needs_leave_for_exec(
    streaming: BothDoors, deputy: Caller, bob: Caller, kubelet: FakeKubelet, rights: Rights
) -> None:
    pod = kubelet.create_pod()
    command = (
        "exec",
        pod,
        "-n",
        kubelet.namespace,
        f"--as={bob.name}",
        "--",
        "sh",
        "-c",
        "echo to-stdout; exit 3",
    )

    refused = streaming.say(deputy, *command)
    rights.grant(deputy, may_do("user-info", "get", "create", resources=["pods/exec"]))
    allowed = streaming.say(deputy, *command)

    assert refused.code == 1
    assert "cannot impersonate-on:user-info:" in refused.errors
    assert (allowed.code, allowed.output) == (3, "to-stdout\n")


def test_leave_to_get_opens_exec_over_websocket_alone(
    streaming: BothDoors, deputy: Caller, bob: Caller, kubelet: FakeKubelet, rights: Rights
) -> None:
    """So this also tells that a WebSocket is one: a kubectl that fails there takes SPDY."""
    pod = kubelet.create_pod()
    rights.grant(deputy, may_do("user-info", "get", resources=["pods/exec"]))

    said = streaming.say(
        deputy, "exec", pod, "-n", kubelet.namespace, f"--as={bob.name}", "--", "echo", "hello"
    )

    if streaming.with_kubeconfig(Path()).websockets:
        assert (said.code, said.output) == (0, "hello\n")
    else:
        assert said.code == 1
        assert "cannot impersonate-on:user-info:create" in said.errors


def test_leave_to_get_opens_port_forward_over_websocket_alone(
    streaming: BothDoors, deputy: Caller, bob: Caller, kubelet: FakeKubelet, rights: Rights
) -> None:
    rights.grant(deputy, may_do("user-info", "get", resources=["pods/portforward"]))
    place = ("-n", kubelet.namespace, f"--as={bob.name}")
    command = ("port-forward", kubelet.create_pod(), ":80", *place)

    if streaming.with_kubeconfig(Path()).websockets:
        with streaming.watching(deputy, *command) as both:
            assert [one.line().partition(":")[0] for one in both] == [
                "Forwarding from 127.0.0.1"
            ] * 2
    else:
        said = streaming.say(deputy, *command)
        assert said.code == 1
        assert "cannot impersonate-on:user-info:create" in said.errors


def test_exec_without_permission_is_refused_by_the_cluster_itself(
    streaming: BothDoors, cast: Cast, rights: Rights, kubelet: FakeKubelet
) -> None:
    pod, reader = kubelet.create_pod(), cast.user("reader")
    rights.grant(reader, may("get"))

    said = streaming.say(reader, "exec", pod, "-n", kubelet.namespace, "--", "true")

    assert said.code == 1
    assert f'User "{reader.name}" cannot' in said.errors
    assert 'resource "pods/exec"' in said.errors
