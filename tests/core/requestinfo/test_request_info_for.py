import pytest

from proxy.core.requestinfo.request_info import (
    ObjectRef,
    ResourceKind,
    parse_request_info,
    request_info_for,
)

PODS = ResourceKind("", "v1", "pods", is_namespaced=True)
NODES = ResourceKind("", "v1", "nodes", is_namespaced=False)
NAMESPACES = ResourceKind("", "v1", "namespaces", is_namespaced=False)
DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", is_namespaced=True)


@pytest.mark.parametrize(
    ("verb", "kind", "place", "method", "target"),
    [
        ("list", PODS, ObjectRef("web"), b"GET", b"/api/v1/namespaces/web/pods"),
        ("list", PODS, ObjectRef(), b"GET", b"/api/v1/pods"),
        ("watch", PODS, ObjectRef("web"), b"GET", b"/api/v1/namespaces/web/pods?watch=1"),
        ("get", PODS, ObjectRef("web", "p"), b"GET", b"/api/v1/namespaces/web/pods/p"),
        ("create", PODS, ObjectRef("web"), b"POST", b"/api/v1/namespaces/web/pods"),
        ("update", PODS, ObjectRef("web", "p"), b"PUT", b"/api/v1/namespaces/web/pods/p"),
        ("patch", PODS, ObjectRef("web", "p"), b"PATCH", b"/api/v1/namespaces/web/pods/p"),
        ("delete", PODS, ObjectRef("web", "p"), b"DELETE", b"/api/v1/namespaces/web/pods/p"),
        ("deletecollection", PODS, ObjectRef("web"), b"DELETE", b"/api/v1/namespaces/web/pods"),
        (
            "create",
            PODS,
            ObjectRef("web", "p", "exec"),
            b"POST",
            b"/api/v1/namespaces/web/pods/p/exec",
        ),
        ("get", NODES, ObjectRef("web", "n"), b"GET", b"/api/v1/nodes/n"),
        ("get", NAMESPACES, ObjectRef("", "web"), b"GET", b"/api/v1/namespaces/web"),
        (
            "get",
            DEPLOYMENTS,
            ObjectRef("web", "d", "scale"),
            b"GET",
            b"/apis/apps/v1/namespaces/web/deployments/d/scale",
        ),
        ("get", PODS, ObjectRef("web", "a b"), b"GET", b"/api/v1/namespaces/web/pods/a%20b"),
        (
            "list",
            PODS,
            ObjectRef("web", "p"),
            b"GET",
            b"/api/v1/namespaces/web/pods?fieldSelector=metadata.name%3Dp",
        ),
    ],
)
def test_what_people_name_is_what_the_request_for_it_does(
    verb: str, kind: ResourceKind, place: ObjectRef, method: bytes, target: bytes
) -> None:
    assert request_info_for(verb, kind, place) == parse_request_info(method, target)


def test_a_verb_that_no_request_has_is_taken_as_it_is() -> None:
    request_info = request_info_for("use", PODS, ObjectRef("web", "p"))

    assert (request_info.verb, request_info.resource, request_info.name) == ("use", "pods", "p")


def test_a_subresource_without_a_name_is_that_of_any_object() -> None:
    request_info = request_info_for("create", PODS, ObjectRef("web", subresource="exec"))

    assert (request_info.verb, request_info.name, request_info.subresource) == (
        "create",
        "",
        "exec",
    )
