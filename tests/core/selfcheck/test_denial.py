"""Which denials are about us: the API server's own words, whole, and nothing else."""

import json

import pytest

from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.selfcheck.denial import (
    CBOR,
    JSON,
    PROTOBUF,
    YAML,
    is_from_api_server,
    may_become_denial,
    missing_permission,
    parse_denial,
)

OURS = frozenset({"system:serviceaccount:understudy:forwarder"})
(NAME,) = OURS
USERS = (
    f'users "bob" is forbidden: User "{NAME}" cannot impersonate resource "users" in API group ""'
    " at the cluster scope"
)
RIGHT = 'impersonate resource "users" in API group "" at the cluster scope'


def status(message: str, **details: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": details,
        "code": 403,
    }


def right_in(document: object) -> str | None:
    denial = parse_denial(JSON, json.dumps(document).encode())
    return missing_permission(denial, OURS) if denial is not None else None


def field(number: int, value: bytes | int) -> bytes:
    """Return a field of a protobuf message; sizes here need one or two bytes."""
    if isinstance(value, int):
        return bytes((number << 3, value & 0x7F | 0x80, value >> 7))
    return bytes((number << 3 | 2, len(value) & 0x7F | 0x80, len(value) >> 7)) + value


def protobuf(message: str, *, code: int = 403, kind: bytes = b"Status", name: str = "bob") -> bytes:
    details = field(1, name.encode()) + field(3, b"users")
    raw = b"".join(
        (
            field(1, b""),
            field(2, b"Failure"),
            field(3, message.encode()),
            field(4, b"Forbidden"),
            field(5, details),
            field(6, code),
        )
    )
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, kind)) + field(2, raw) + field(3, b"")


@pytest.mark.parametrize(
    ("message", "details", "right"),
    [
        (USERS, {"name": "bob", "kind": "users"}, RIGHT),
        (
            f'serviceaccounts "x" is forbidden: User "{NAME}" cannot impersonate resource '
            '"serviceaccounts" in API group "" in the namespace "default": deny by default',
            {"name": "x", "kind": "serviceaccounts"},
            'impersonate resource "serviceaccounts" in API group "" in the namespace "default"',
        ),
        (
            f'userextras.authentication.k8s.io "b" is forbidden: User "{NAME}" cannot impersonate '
            'resource "userextras/a" in API group "authentication.k8s.io" at the cluster scope',
            {"name": "b", "kind": "userextras", "group": "authentication.k8s.io"},
            'impersonate resource "userextras/a" in API group "authentication.k8s.io" '
            "at the cluster scope",
        ),
        (f'forbidden: User "{NAME}" cannot get path "/a"', {}, 'get path "/a"'),
        (
            f'forbidden: User "{NAME}" cannot impersonate-on:user-info:get path "/a"',
            {},
            "impersonate all of this identity (the API server reports first: "
            'impersonate-on:user-info:get path "/a")',
        ),
        (f'pods is forbidden: User "{NAME}" cannot somehow', {"kind": "pods"}, "do that"),
    ],
    ids=["user", "service account", "extra", "path", "constrained", "unknown words"],
)
def test_a_denial_of_us_names_the_right(message: str, details: dict[str, str], right: str) -> None:
    assert right_in(status(message, **details)) == right


@pytest.mark.parametrize(
    ("message", "details"),
    [
        (USERS.replace(NAME, "alice"), {"name": "bob", "kind": "users"}),
        (USERS.replace(NAME, f"{NAME}2"), {"name": "bob", "kind": "users"}),
        (USERS.replace(NAME, f"a{NAME}"), {"name": "bob", "kind": "users"}),
        (f'pods "{USERS}" is forbidden: User "eve" cannot get', {"name": USERS, "kind": "pods"}),
        (USERS, {"name": "carol", "kind": "users"}),
        (USERS, {}),
        (f"admission webhook denied the request: {USERS}", {"kind": "users", "name": "bob"}),
    ],
    ids=["other", "longer", "prefixed", "in a name", "other details", "no details", "webhook"],
)
def test_a_denial_of_somebody_else_is_theirs(message: str, details: dict[str, str]) -> None:
    assert right_in(status(message, **details)) is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "Pod"}, {"code": 404}, {"code": "403"}, {"reason": "Invalid"}, {"message": 1}],
    ids=str,
)
def test_only_a_status_of_a_denial_is_one(change: dict[str, object]) -> None:
    assert right_in(status(USERS, name="bob", kind="users")) == RIGHT
    assert right_in(status(USERS, name="bob", kind="users") | change) is None


@pytest.mark.parametrize("details", [{"name": 1}, {"kind": []}])
def test_details_that_are_no_text_are_no_denial(details: dict[str, object]) -> None:
    assert right_in({**status(USERS), "details": details}) is None


def test_a_name_with_markup_is_known_as_the_api_server_writes_it() -> None:
    message = 'users "x" is forbidden: User "a&lt;b\\"c" cannot impersonate resource "users"'
    denial = parse_denial(JSON, json.dumps(status(message, name="x", kind="users")).encode())

    assert denial is not None
    assert missing_permission(denial, {'a<b"c'}) == "do that"


def test_protobuf_says_the_same() -> None:
    denial = parse_denial(PROTOBUF, protobuf(USERS))

    assert denial is not None
    assert missing_permission(denial, OURS) == RIGHT
    assert missing_permission(denial, {"alice"}) is None


@pytest.mark.parametrize(
    "body",
    [
        protobuf(USERS, code=404),
        protobuf(USERS, kind=b"Pod"),
        protobuf(USERS)[4:],
        protobuf(USERS)[:-30],
        b"k8s\0\x0a",
        b"k8s\0" + b"\xff" * 20,
        b"k8s\0\x0b",
        b"k8s\0\x0d\0",
        b"k8s\0" + field(2, b"\x18\x80"),
        b"",
    ],
)
def test_what_is_no_such_message_is_no_denial(body: bytes) -> None:
    assert parse_denial(PROTOBUF, body) is None


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_no_denial(body: bytes) -> None:
    assert parse_denial(JSON, body) is None


def test_fields_of_other_kinds_are_skipped() -> None:
    body = b"k8s\0" + b"\x79" + bytes(8) + b"\x7d" + bytes(4) + protobuf(USERS)[4:]

    denial = parse_denial(PROTOBUF, body)

    assert denial is not None
    assert missing_permission(denial, OURS) == RIGHT


@pytest.mark.parametrize("media_type", [YAML, CBOR])
def test_of_other_encodings_the_last_sentence_counts(media_type: str) -> None:
    forged = f'message: \'users "{USERS}" is forbidden: User "eve" cannot impersonate\'\n'
    folded = f"message: '{USERS}'\n".replace(" cannot", "\n  cannot")

    ours, theirs = (
        parse_denial(media_type, folded.encode()),
        parse_denial(media_type, forged.encode()),
    )

    assert ours is not None
    assert theirs is not None
    assert missing_permission(ours, OURS) == RIGHT
    assert missing_permission(theirs, OURS) is None
    assert parse_denial(media_type, b"message: no") is None


@pytest.mark.parametrize(
    ("media_type", "start", "may"),
    [
        (JSON, b"", True),
        (JSON, b'{"ki', True),
        (JSON, b'{\n  "kind": "Status",', True),
        (JSON, b'{"kind":"Status","apiVersion"', True),
        (JSON, b'{"kind":"Pod"', False),
        (JSON, b"[", False),
        (PROTOBUF, b"k8", True),
        (PROTOBUF, b"k8s\0\x0a", True),
        (PROTOBUF, b"k9", False),
        (YAML, b"apiVersion: v1\ncode: 403\ndetails:", True),
        (YAML, b"apiVersion: v1\nkind: Pod", False),
        (CBOR, b"\xd9\xd9\xf7\xa8", True),
        (CBOR, b"\xa8", False),
    ],
)
def test_only_what_begins_as_a_status_may_become_one(
    media_type: str, start: bytes, *, may: bool
) -> None:
    assert may_become_denial(media_type, start) is may


def test_a_webhook_that_chooses_its_details_forges_no_denial_of_us() -> None:
    """The API server puts the webhook's name before its message; details go through as they are."""
    kind = 'admission webhook "w.example" denied the request: users'
    message = f'{kind} "bob" is forbidden: User "{NAME}" cannot {RIGHT}'

    assert right_in(status(message, name="bob", kind=kind)) is None


@pytest.mark.parametrize(
    ("target", "is_its_own"),
    [
        (b"/api/v1/pods", True),
        (b"/api/v1/namespaces/a/pods/b", True),
        (b"/api/v1/namespaces/a/pods/b/status", True),
        (b"/apis/apps/v1/namespaces/a/deployments", True),
        (b"/apis/rbac.authorization.k8s.io/v1/clusterroles", True),
        (b"/api/v1/namespaces/a/pods/b/log", False),
        (b"/api/v1/namespaces/a/pods/b/exec", False),
        (b"/api/v1/namespaces/a/pods/b/attach", False),
        (b"/api/v1/namespaces/a/pods/b/portforward", False),
        (b"/api/v1/namespaces/a/pods/b/proxy/x", False),
        (b"/api/v1/namespaces/a/services/b/proxy/x", False),
        (b"/api/v1/nodes/n/proxy/pods", False),
        (b"/api/v1/proxy/nodes/n/pods", False),
        (b"/apis/metrics.k8s.io/v1beta1/pods", False),
        (b"/apis/example.io/v1/things", False),
        (b"/apis/example.io/v1", False),
        (b"/openapi/v3/apis/example.io/v1", False),
        (b"/version", False),
    ],
)
def test_whose_answer_is_the_api_servers_own_for_sure(target: bytes, *, is_its_own: bool) -> None:
    request_info = parse_request_info(b"GET", target)

    assert is_from_api_server(request_info, is_upgrade=False) is is_its_own
    assert not is_from_api_server(request_info, is_upgrade=True)


def test_a_text_that_is_not_parsed_says_so() -> None:
    denial = parse_denial(YAML, f"apiVersion: v1\ncode: 403\nmessage: {USERS}".encode())

    assert denial is not None
    assert not denial.is_parsed
