from proxy.core.audit.fragments import EventFragmentCache
from proxy.core.impersonation.permit import permit_self
from proxy.core.requestinfo.request_info import parse_partial_request_info, parse_request_info
from proxy.core.userinfo import Caller, UserInfo

POD = b"/api/v1/namespaces/n/pods/p"
HEADERS = ((b"Accept", b"x"), (b"user-AGENT", b"kubectl"), (b"User-Agent", b"second"))


def test_the_parts_of_equal_requests_are_made_once() -> None:
    fragments, caller = EventFragmentCache(), Caller(UserInfo("bob"))
    permit = permit_self(caller)
    get = parse_request_info(b"GET", POD)

    assert fragments.request(get, b"GET", POD) is fragments.request(get, b"GET", POD)
    assert fragments.users(permit) is fragments.users(permit)
    assert fragments.users(caller) is fragments.users(caller)
    assert fragments.origin(HEADERS, "10.0.0.1") is fragments.origin(HEADERS, "10.0.0.1")


def test_a_method_makes_another_request() -> None:
    fragments = EventFragmentCache()

    asked = [
        fragments.request(parse_request_info(method, POD), method, POD).request
        for method in (b"GET", b"DELETE", b"GET")
    ]

    assert ['"verb":"get"' in text for text in asked] == [True, False, True]


def test_equal_callers_that_are_not_the_same_object_are_never_mixed_up() -> None:
    fragments = EventFragmentCache()

    users = [fragments.users(Caller(UserInfo(f"user-{number}"))).user for number in range(5000)]

    assert users == [f'{{"username":"user-{number}"}}' for number in range(5000)]
    assert len(fragments._users) <= 4096


def test_an_unread_request_is_neither_remembered_nor_answered_from_memory() -> None:
    fragments = EventFragmentCache()
    fragments.request(parse_request_info(b"GET", POD), b"GET", POD)

    unread = fragments.request(None, b"GET", POD)

    assert unread.object_reference == ""
    assert fragments.request(parse_request_info(b"GET", POD), b"GET", POD).object_reference != ""


def test_an_unauthenticated_request_says_nothing_for_the_authenticated_one_after_it() -> None:
    fragments = EventFragmentCache()
    target = b"/api/v1/namespaces/n/secrets?fieldSelector=metadata.name=foo" + b"," * 64
    parsed = parse_partial_request_info(b"GET", target)
    assert not parsed.is_complete

    before = fragments.unauthenticated_request(parsed.request_info, b"GET", target)
    after = fragments.request(parse_request_info(b"GET", target), b"GET", target)

    assert '"name":"foo"' not in before.object_reference
    assert '"name":"foo"' in after.object_reference


def test_the_first_agent_counts_and_every_peer_has_its_own() -> None:
    fragments = EventFragmentCache()

    assert fragments.origin(HEADERS, "10.0.0.1") == (
        ',"sourceIPs":["10.0.0.1"],"userAgent":"kubectl"'
    )
    assert fragments.origin(HEADERS, "10.0.0.2").startswith(',"sourceIPs":["10.0.0.2"]')
    assert fragments.origin((), "10.0.0.2") == ',"sourceIPs":["10.0.0.2"]'


def test_what_is_long_is_not_remembered() -> None:
    fragments = EventFragmentCache()
    long_path, long_agent = b"/" + b"x" * 600, ((b"User-Agent", b"x" * 600),)
    giant = Caller(UserInfo("bob", groups=("g" * 3000,)))

    fragments.request(parse_request_info(b"GET", long_path), b"GET", long_path)
    fragments.origin(long_agent, "10.0.0.1")
    fragments.users(giant)

    assert not any((fragments._requests, fragments._origins, fragments._users))
