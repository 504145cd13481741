import pytest

from proxy.core.requestinfo.request_info import Place, ResourceKind, named_action, parse_action

PODS = ResourceKind("", "v1", "pods", is_namespaced=True)
NODES = ResourceKind("", "v1", "nodes", is_namespaced=False)
NAMESPACES = ResourceKind("", "v1", "namespaces", is_namespaced=False)
DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", is_namespaced=True)


@pytest.mark.parametrize(
    ("verb", "kind", "place", "method", "target"),
    [
        ("list", PODS, Place("web"), b"GET", b"/api/v1/namespaces/web/pods"),
        ("list", PODS, Place(), b"GET", b"/api/v1/pods"),
        ("watch", PODS, Place("web"), b"GET", b"/api/v1/namespaces/web/pods?watch=1"),
        ("get", PODS, Place("web", "p"), b"GET", b"/api/v1/namespaces/web/pods/p"),
        ("create", PODS, Place("web"), b"POST", b"/api/v1/namespaces/web/pods"),
        ("update", PODS, Place("web", "p"), b"PUT", b"/api/v1/namespaces/web/pods/p"),
        ("patch", PODS, Place("web", "p"), b"PATCH", b"/api/v1/namespaces/web/pods/p"),
        ("delete", PODS, Place("web", "p"), b"DELETE", b"/api/v1/namespaces/web/pods/p"),
        ("deletecollection", PODS, Place("web"), b"DELETE", b"/api/v1/namespaces/web/pods"),
        (
            "create",
            PODS,
            Place("web", "p", "exec"),
            b"POST",
            b"/api/v1/namespaces/web/pods/p/exec",
        ),
        ("get", NODES, Place("web", "n"), b"GET", b"/api/v1/nodes/n"),
        ("get", NAMESPACES, Place("", "web"), b"GET", b"/api/v1/namespaces/web"),
        (
            "get",
            DEPLOYMENTS,
            Place("web", "d", "scale"),
            b"GET",
            b"/apis/apps/v1/namespaces/web/deployments/d/scale",
        ),
        ("get", PODS, Place("web", "a b"), b"GET", b"/api/v1/namespaces/web/pods/a%20b"),
        (
            "list",
            PODS,
            Place("web", "p"),
            b"GET",
            b"/api/v1/namespaces/web/pods?fieldSelector=metadata.name%3Dp",
        ),
    ],
)
def test_what_people_name_is_what_the_request_for_it_does(
    verb: str, kind: ResourceKind, place: Place, method: bytes, target: bytes
) -> None:
    assert named_action(verb, kind, place) == parse_action(method, target)


def test_a_verb_that_no_request_has_is_taken_as_it_is() -> None:
    action = named_action("use", PODS, Place("web", "p"))

    assert (action.verb, action.resource, action.name) == ("use", "pods", "p")


def test_a_subresource_without_a_name_is_that_of_any_object() -> None:
    action = named_action("create", PODS, Place("web", subresource="exec"))

    assert (action.verb, action.name, action.subresource) == ("create", "", "exec")
