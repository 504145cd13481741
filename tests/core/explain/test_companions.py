import pytest

from proxy.core.explain.companions import companion_requests
from proxy.core.requestinfo.request_info import (
    ObjectRef,
    RequestInfo,
    ResourceKind,
    request_info_for,
)

PODS = ResourceKind("", "v1", "pods", is_namespaced=True)


def request(verb: str, name: str = "", subresource: str = "") -> RequestInfo:
    return request_info_for(verb, PODS, ObjectRef("web", name, subresource))


def described(request_info: RequestInfo) -> list[tuple[str, str, str, bool]]:
    return [
        (info.verb, info.name, info.subresource, is_alternative)
        for info, is_alternative in companion_requests(request_info)
    ]


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
@pytest.mark.parametrize(("verb", "other"), [("get", "create"), ("create", "get")])
def test_stream_is_opened_by_both_verbs_after_reading_the_pod(
    subresource: str, verb: str, other: str
) -> None:
    assert described(request(verb, "web-1", subresource)) == [
        (other, "web-1", subresource, True),
        ("get", "web-1", "", False),
    ]


def test_parent_request_equals_the_parsed_one() -> None:
    (parent,) = companion_requests(request("get", "web-1", "log"))

    assert parent.request_info == request("get", "web-1")


@pytest.mark.parametrize("verb", ["patch", "update"])
def test_changed_object_is_read_first(verb: str) -> None:
    assert described(request(verb, "web-1")) == [("get", "web-1", "", False)]


def test_watch_follows_a_list_and_of_one_object_a_get() -> None:
    assert described(request("watch")) == [("list", "", "", False)]
    assert described(request("watch", "web-1")) == [("get", "web-1", "", False)]


@pytest.mark.parametrize(
    "request_info",
    [request("list"), request("get", "web-1"), request("create"), RequestInfo("get", "/version")],
)
def test_other_requests_are_sent_alone(request_info: RequestInfo) -> None:
    assert companion_requests(request_info) == ()
