import argparse
import shlex

import pytest

from proxy.cli.options.kubectl import apply_kubectl_command
from proxy.cli.options.request import UsageError


def options() -> argparse.Namespace:
    return argparse.Namespace(
        namespace=None,
        all_namespaces=False,
        as_user=None,
        as_group=[],
        as_uid="",
        as_user_extra=[],
    )


def read(command: str) -> argparse.Namespace:
    given = options()
    apply_kubectl_command(given, shlex.split(command))
    return given


@pytest.mark.parametrize(
    ("command", "request_words"),
    [
        ("get pods", ("list", "pods", None)),
        ("get pods web-1", ("get", "pods", "web-1")),
        ("get pods/web-1 -o yaml", ("get", "pods", "web-1")),
        ("get pods -w", ("watch", "pods", None)),
        ("get pod web-1 --watch", ("watch", "pod", "web-1")),
        ("get deploy -l app=web", ("list", "deploy", None)),
        ("describe pod web-1", ("get", "pod", "web-1")),
        ("exec web-1", ("create", "pods/exec", "web-1")),
        ("exec -it pod/web-1 -c main -- ls -n 5", ("create", "pods/exec", "web-1")),
        ("attach web-1", ("create", "pods/attach", "web-1")),
        ("port-forward pod/web-1 8080:80", ("create", "pods/portforward", "web-1")),
        ("cp web-1:/etc/hosts here", ("create", "pods/exec", "web-1")),
        ("cp here shop/web-1:/etc/hosts", ("create", "pods/exec", "web-1")),
        ("logs web-1 -f --tail 10", ("get", "pods/log", "web-1")),
        ("delete pod web-1", ("delete", "pod", "web-1")),
        ("edit deploy web", ("patch", "deploy", "web")),
        ("label pod web-1 a=b c=d", ("patch", "pod", "web-1")),
        ("scale deploy web --replicas 3", ("patch", "deploy/scale", "web")),
    ],
)
def test_command_is_the_request_that_decides_it(
    command: str, request_words: tuple[str, str, str | None]
) -> None:
    given = read(f"kubectl {command}")

    assert (given.verb, given.resource, given.name) == request_words
    assert given.for_kubectl


def test_options_of_kubectl_are_those_of_the_request() -> None:
    given = read(
        "kubectl --as alice --kubeconfig bob.yaml --as-group ops --as-uid 7 "
        "--as-user-extra acme.io/team=x -n shop get pods"
    )

    assert (given.as_user, given.as_group, given.as_uid) == ("alice", ["ops"], "7")
    assert given.as_user_extra == [("acme.io/team", "x")]
    assert given.namespace == "shop"
    assert read("get pods -A").all_namespaces


def test_words_of_the_command_in_the_container_are_not_read() -> None:
    assert read("exec web-1 -- ps -A -n other").namespace is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("kubectl", "no verb"),
        ("kubectl get", "needs a resource"),
        ("kubectl exec", "needs a pod"),
        ("kubectl exec deploy/web", "name the pod"),
        ("kubectl get pods,services", "several objects"),
        ("kubectl get pods a b", "several objects"),
        ("kubectl cp a b", "POD:PATH"),
        ("kubectl apply -f web.yaml", "patch RESOURCE NAME --for-kubectl"),
        ("kubectl drain n1", "`kubectl drain` is not known here"),
        ("kubectl get pods -n", "expected one argument"),
        ("kubectl get pods --as-user-extra x", "must be KEY=VALUE"),
    ],
)
def test_command_that_is_not_one_request_is_a_usage_error(command: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(command)
