from proxy.core.audit.fragments import AuditPieces
from proxy.core.impersonation.permit import admit_self
from proxy.core.requestinfo.request_info import outline_action, parse_action
from proxy.core.userinfo import Caller, Identity

POD = b"/api/v1/namespaces/n/pods/p"
HEADERS = ((b"Accept", b"x"), (b"user-AGENT", b"kubectl"), (b"User-Agent", b"second"))


def test_the_parts_of_equal_requests_are_made_once() -> None:
    pieces, caller = AuditPieces(), Caller(Identity("bob"))
    admission = admit_self(caller)
    get = parse_action(b"GET", POD)

    assert pieces.request(get, b"GET", POD) is pieces.request(get, b"GET", POD)
    assert pieces.people(admission) is pieces.people(admission)
    assert pieces.people(caller) is pieces.people(caller)
    assert pieces.origin(HEADERS, "10.0.0.1") is pieces.origin(HEADERS, "10.0.0.1")


def test_a_method_makes_another_request() -> None:
    pieces = AuditPieces()

    asked = [
        pieces.request(parse_action(method, POD), method, POD).request
        for method in (b"GET", b"DELETE", b"GET")
    ]

    assert ['"verb":"get"' in text for text in asked] == [True, False, True]


def test_equal_callers_that_are_not_the_same_object_are_never_mixed_up() -> None:
    pieces = AuditPieces()

    users = [pieces.people(Caller(Identity(f"user-{number}"))).user for number in range(5000)]

    assert users == [f'{{"username":"user-{number}"}}' for number in range(5000)]
    assert len(pieces._people) <= 4096


def test_an_unread_request_is_neither_remembered_nor_answered_from_memory() -> None:
    pieces = AuditPieces()
    pieces.request(parse_action(b"GET", POD), b"GET", POD)

    unread = pieces.request(None, b"GET", POD)

    assert unread.object_reference == ""
    assert pieces.request(parse_action(b"GET", POD), b"GET", POD).object_reference != ""


def test_an_unauthenticated_request_says_nothing_for_the_authenticated_one_after_it() -> None:
    pieces = AuditPieces()
    target = b"/api/v1/namespaces/n/secrets?fieldSelector=metadata.name=foo" + b"," * 64
    outline = outline_action(b"GET", target)
    assert not outline.is_whole

    before = pieces.unauthenticated_request(outline.action, b"GET", target)
    after = pieces.request(parse_action(b"GET", target), b"GET", target)

    assert '"name":"foo"' not in before.object_reference
    assert '"name":"foo"' in after.object_reference


def test_the_first_agent_counts_and_every_peer_has_its_own() -> None:
    pieces = AuditPieces()

    assert pieces.origin(HEADERS, "10.0.0.1") == (',"sourceIPs":["10.0.0.1"],"userAgent":"kubectl"')
    assert pieces.origin(HEADERS, "10.0.0.2").startswith(',"sourceIPs":["10.0.0.2"]')
    assert pieces.origin((), "10.0.0.2") == ',"sourceIPs":["10.0.0.2"]'


def test_what_is_long_is_not_remembered() -> None:
    pieces = AuditPieces()
    long_path, long_agent = b"/" + b"x" * 600, ((b"User-Agent", b"x" * 600),)
    giant = Caller(Identity("bob", groups=("g" * 3000,)))

    pieces.request(parse_action(b"GET", long_path), b"GET", long_path)
    pieces.origin(long_agent, "10.0.0.1")
    pieces.people(giant)

    assert not any((pieces._requests, pieces._origins, pieces._people))
