import pytest

from proxy.core.errors import BadRequest, RequestInfoError, TargetTooLong
from proxy.core.gocompat.url import request_uri
from proxy.core.requestinfo.request_info import RequestInfo, check_target_length, parse_request_info
from tests.core.vectors import ActionVector, load

VECTORS = load("actions", ActionVector)


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS if "Error" not in vector and "%FF" not in vector["Target"]],
    ids=lambda vector: f"{vector['Method']} {vector['Target']}",
)
def test_a_request_does_what_the_api_server_takes_it_for(vector: ActionVector) -> None:
    target = vector["Target"].encode()

    request_info = parse_request_info(vector["Method"].encode(), target)

    assert request_info.verb == vector["Verb"]
    assert request_info.path == vector["Path"]
    assert request_info.is_resource == vector["IsResource"]
    assert (request_info.group, request_info.version) == (vector["Group"], vector["Version"])
    assert (request_info.namespace, request_info.name) == (vector["Namespace"], vector["Name"])
    assert (request_info.resource, request_info.subresource) == (
        vector["Resource"],
        vector["Subresource"],
    )
    assert [list(requirement) for requirement in request_info.fields] == vector["Fields"]
    assert [[key, op, *values] for key, op, values in request_info.labels] == vector["Labels"]
    assert request_info.has_unparsed_selector == vector["Unparsed"]
    assert request_info.is_long_running == vector["LongRunning"]
    assert request_uri(target) == vector["URI"]


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS if "Error" in vector],
    ids=lambda vector: f"{vector['Method']} {vector['Target']}",
)
def test_what_the_api_server_cannot_read_gets_its_own_words(vector: ActionVector) -> None:
    with pytest.raises(RequestInfoError) as refusal:
        parse_request_info(vector["Method"].encode(), vector["Target"].encode())

    assert refusal.value.message == vector["Error"]
    assert refusal.value.code == 500


@pytest.mark.parametrize("method", [b"get", b"CONNECT", b"TRACE", b"FOO", b"", b"\xff"])
def test_an_unusual_method_is_refused(method: bytes) -> None:
    with pytest.raises(BadRequest, match="the request method is not supported"):
        parse_request_info(method, b"/api/v1/pods")


def test_a_field_selector_that_a_review_could_not_carry_is_refused() -> None:
    with pytest.raises(BadRequest, match="the field selector is not valid UTF-8"):
        parse_request_info(b"GET", b"/api/v1/pods?fieldSelector=metadata.name=%FF")


def test_a_label_selector_of_foreign_bytes_does_not_parse() -> None:
    request_info = parse_request_info(b"GET", b"/api/v1/pods?labelSelector=%FF")

    assert request_info == RequestInfo(
        "list",
        "/api/v1/pods",
        is_resource=True,
        version="v1",
        resource="pods",
        has_unparsed_selector=True,
    )


def test_a_long_target_is_read_like_a_short_one() -> None:
    name = "x" * 300

    request_info = parse_request_info(b"GET", b"/api/v1/namespaces/a/pods/" + name.encode())

    assert (request_info.verb, request_info.namespace, request_info.name) == ("get", "a", name)


LONG_QUERY = b"?a=" + b"b" * 100


@pytest.mark.parametrize(
    "path",
    [
        b"/api/v1/namespaces/a/pods/b/exec",
        b"/api/v1/namespaces/a/pods/b/attach",
        b"/api/v1/namespaces/a/pods/b/portforward",
        b"/api/v1/namespaces/a/services/b/proxy/page",
        b"/api/v1/proxy/nodes/a",
    ],
)
def test_the_query_of_a_connect_request_may_have_any_length(path: bytes) -> None:
    check_target_length(b"POST", path + LONG_QUERY, max_bytes=64)


@pytest.mark.parametrize(
    "target",
    [
        b"/version" + LONG_QUERY,
        b"/api/v1/pods" + LONG_QUERY,
        b"/api/v1/namespaces/a/pods/b/log" + LONG_QUERY,
        b"/api/v1/namespaces/exec/pods/exec" + LONG_QUERY,
        b"/api/v1/namespaces/a/pods/b/exec/" + b"c" * 64,
        b"/exec" + LONG_QUERY,
    ],
)
def test_any_other_long_target_is_refused(target: bytes) -> None:
    check_target_length(b"GET", target, max_bytes=len(target))

    with pytest.raises(TargetTooLong, match="the request target is longer than 64 bytes"):
        check_target_length(b"GET", target, max_bytes=64)
