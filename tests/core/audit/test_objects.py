import gzip
import json

import pytest

from proxy.core.audit.objects import (
    JSONBody,
    MediaType,
    has_request_object,
    has_response_object,
    may_be_status,
    media_type,
    metadata_of,
    read_body,
    request_body_was_read,
    status_of,
    without_managed_fields,
)
from proxy.core.requestinfo.request_info import parse_request_info

JSON = MediaType(b"application/json", b"")
GZIP = MediaType(b"application/json", b"gzip")
PODS = b"/api/v1/namespaces/n/pods"
LIMIT = 1000


def body(document: object) -> JSONBody:
    return JSONBody(json.dumps(document), document)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"a":1}\n', '{"a":1}'),
        (b'{\r\n\t"a": [1,\n 2]}', '{"a": [1, 2]}'),
        (b'{"n":1.50e3,"big":12345678901234567890}', '{"n":1.50e3,"big":12345678901234567890}'),
        (b'{"a":"\xff"}', '{"a":"\ufffd"}'),
        ('{"a":"\u2028\u2029"}'.encode(), '{"a":"\\u2028\\u2029"}'),
    ],
    ids=["plain", "pretty", "numbers", "not-text", "separators"],
)
def test_a_body_is_recorded_as_it_came_on_one_line(raw: bytes, text: str) -> None:
    read = read_body(raw, JSON, limit=LIMIT)

    assert read is not None
    assert read.text == text
    assert json.loads(text) == read.document


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"a":"\n"}', b"NaN", b'{"a":Infinity}', b"{}{}", b"[" * 100_000, b"\x00"],
    ids=["empty", "cut", "newline-in-string", "nan", "infinity", "two", "deep", "binary"],
)
def test_what_could_break_the_line_is_not_recorded(raw: bytes) -> None:
    assert read_body(raw, JSON, limit=LIMIT) is None


def test_a_compressed_body_is_unpacked_up_to_the_limit() -> None:
    small, bomb = gzip.compress(b'{"a":1}'), gzip.compress(b'"' + b"x" * 100_000 + b'"')

    assert read_body(small, GZIP, limit=LIMIT) == JSONBody('{"a":1}', {"a": 1})
    assert read_body(bomb, GZIP, limit=LIMIT) is None
    assert read_body(small[:-9], GZIP, limit=LIMIT) is None
    assert read_body(b"nonsense", GZIP, limit=LIMIT) is None


@pytest.mark.parametrize(
    ("headers", "is_json", "is_other", "name"),
    [
        ([], True, False, ""),
        ([(b"X", b"y"), (b"content-type", b"application/json; charset=utf-8")], True, False,
         "application/json"),
        ([(b"Content-Type", b"application/merge-patch+json")], True, False,
         "application/merge-patch+json"),
        ([(b"Content-Type", b"application/json"), (b"Content-Encoding", b"gzip")], True, True,
         "application/json gzip"),
        ([(b"Content-Type", b"application/json"), (b"Content-Encoding", b"br")], False, True,
         "application/json br"),
        ([(b"Content-Type", b"application/vnd.kubernetes.protobuf")], False, True,
         "application/vnd.kubernetes.protobuf"),
        ([(b"Content-Type", b"application/cbor")], False, True, "application/cbor"),
        ([(b"Content-Type", b"text/plain")], False, False, "text/plain"),
    ],
)  # fmt: skip
def test_only_json_can_be_recorded(
    headers: list[tuple[bytes, bytes]], is_json: object, is_other: object, name: str
) -> None:
    media = media_type(headers)

    assert (media.is_json, media.is_other_object, str(media)) == (is_json, is_other, name)


@pytest.mark.parametrize(
    ("method", "target", "request_object", "answers"),
    [
        (b"GET", PODS, True, {200: True, 404: True}),
        (b"GET", PODS + b"?watch=1", True, {200: False, 410: True}),
        (b"GET", PODS + b"/p/log", True, {200: False, 404: True}),
        (b"POST", PODS + b"/p/exec", False, {101: False, 404: True}),
        (b"POST", PODS + b"/p/proxy/x", False, {200: False, 503: True}),
        (b"GET", b"/api/v1/proxy" + PODS[7:], False, {200: False}),
        (b"GET", b"/version", False, {200: False, 403: True}),
        (b"GET", b"/api", False, {200: True}),
        (b"GET", b"/apis/apps/v1", False, {200: True}),
        (b"GET", b"/apiary", False, {200: False}),
    ],
)
def test_objects_are_what_the_api_server_itself_reads_and_writes(
    method: bytes, target: bytes, request_object: object, answers: dict[int, bool]
) -> None:
    request_info = parse_request_info(method, target)

    assert has_request_object(request_info) == request_object
    assert {code: has_response_object(request_info, code) for code in answers} == answers


@pytest.mark.parametrize(
    ("payload", "is_status"),
    [
        (b'{"kind":"Status","apiVersion":"v1"', True),
        (b'{\n  "kind": "Status",', True),
        (b'{"kind":"StatusList"', False),
        (b'{"kind":"Pod"', False),
        (b"", False),
    ],
)
def test_a_status_shows_in_its_first_bytes(payload: bytes, is_status: object) -> None:
    assert may_be_status(payload) == is_status


MANAGED = {"name": "x", "managedFields": [{"manager": "me"}]}
PLAIN = {"name": "x"}


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        ({"metadata": MANAGED, "a": 1}, {"metadata": PLAIN, "a": 1}),
        ({"kind": "L", "items": [{"metadata": MANAGED}, 3]},
         {"kind": "L", "items": [{"metadata": PLAIN}, 3]}),
        ({"kind": "Table", "rows": [{"object": {"metadata": MANAGED}}, {"cells": []}, 4]},
         {"kind": "Table", "rows": [{"object": {"metadata": PLAIN}}, {"cells": []}, 4]}),
        ({"spec": {"metadata": MANAGED}}, {"spec": {"metadata": MANAGED}}),
        ({"metadata": ["managedFields"]}, {"metadata": ["managedFields"]}),
        (["managedFields"], ["managedFields"]),
        ({"rows": [{"object": {"metadata": MANAGED}}]},
         {"rows": [{"object": {"metadata": MANAGED}}]}),
    ],
    ids=["object", "list", "table", "template", "odd-metadata", "no-object", "no-table"],
)  # fmt: skip
def test_managed_fields_go_and_nothing_else(document: object, kept: object) -> None:
    assert json.loads(without_managed_fields(body(document)) or "") == kept


def test_half_a_character_in_a_body_is_replaced_as_go_does_it() -> None:
    sent = read_body(b'{"metadata":{"managedFields":[],"name":"\\ud800"}}', JSON, limit=99)

    assert sent is not None
    assert (without_managed_fields(sent) or "").encode() == (
        '{"metadata":{"name":"\ufffd"}}'.encode()
    )


@pytest.mark.parametrize("odd", ["1e999", "-1e999", "[" * 980 + "]" * 980])
def test_what_can_be_read_and_not_be_written_is_left_out(odd: str) -> None:
    sent = read_body(f'{{"metadata":{{"managedFields":[]}},"a":{odd}}}'.encode(), JSON, limit=3000)

    assert sent is None or without_managed_fields(sent) is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"metadata": {"name": "a", "uid": "u", "labels": {}}}, {"name": "a", "uid": "u"}),
        ({"metadata": {"name": 3}}, {}),
        ({"metadata": []}, {}),
        ([], {}),
    ],
)
def test_a_body_says_which_object_it_is(document: object, said: dict[str, str]) -> None:
    assert metadata_of(body(document)) == said
    assert metadata_of(None) == {}


def test_a_status_is_known_by_its_kind() -> None:
    assert status_of(body({"kind": "Status", "code": 4})) == {"kind": "Status", "code": 4}
    assert status_of(body({"kind": "Pod"})) is None
    assert status_of(body(["Status"])) is None
    assert status_of(None) is None


@pytest.mark.parametrize(
    ("code", "status", "is_read"),
    [
        (201, None, True),
        (400, {"message": "bad"}, False),
        (403, {"message": 'pods is forbidden: User "bob" cannot create resource "pods"'}, False),
        (403, {"message": 'pods "x" is forbidden: exceeded quota'}, True),
        (404, None, False),
        (404, {"message": 'namespaces "x" not found'}, True),
        (409, {"message": "exists"}, True),
        (429, None, False),
        (403, {}, True),
    ],
)
def test_a_body_counts_only_if_the_api_server_has_come_to_it(
    code: int, status: dict[str, object] | None, is_read: object
) -> None:
    assert request_body_was_read(code, status) == is_read
