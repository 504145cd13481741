"""Upstream 403 responses: how long one is held, and whether it concerns the proxy itself."""

import json
import logging
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from proxy.core.errors import ProxyPermissionMissing, StatusError
from proxy.core.http.headers import Header, encode_header_lines
from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import (
    MAX_DENIAL_BYTES,
    REPORT_INTERVAL_SECONDS,
    DeniedRequest,
    HeldResponse,
    ProxyDenialDetector,
    denial_type,
)
from proxy.wire.http1.body import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyFraming, BodyKind
from proxy.wire.http1.message import ResponseHead, status_line
from tests.support.clock import FakeClock

STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no"}'
HEAD = ResponseHead(403, status_line(403), CHUNKED, keep_alive=True)
JSON_TYPE: Header = (b"Content-Type", b"application/json")
FORMER, FORWARDER = "former-forwarder", "forwarder"
PODS = b"/api/v1/pods"
LOG = b"/api/v1/namespaces/n/pods/p/log"
IMPERSONATE = 'impersonate resource "users" in API group "" at the cluster scope'
GET_PODS = 'get resource "pods" in API group "" at the cluster scope'


class Permissions:
    """Responds to each question whether a permission is missing, at once or later."""

    def __init__(self, *, is_missing: bool = False, is_held: bool = False) -> None:
        self.questions: list[tuple[str, str]] = []
        self.pending: list[Callable[[bool], None]] = []
        self._is_missing = is_missing
        self._is_held = is_held

    def confirm(self, user: UserInfo, name: str, on_result: Callable[[bool], None]) -> None:
        self.questions.append((user.name, name))
        if self._is_held:
            self.pending.append(on_result)
        else:
            on_result(self._is_missing)


class Detection:
    """A detector that knows two names of the forwarder, and what it reports."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        self.permissions = permissions or Permissions()
        self.registry = CollectorRegistry()
        self.clock = FakeClock()
        self.detector = ProxyDenialDetector(
            self.permissions, counter=UpstreamMetrics(self.registry), clock=self.clock
        )
        self.detector.add_username(FORMER)
        self.detector.add_username(FORWARDER)
        self.results: list[StatusError | None] = []

    def resolve(
        self,
        body: bytes,
        *,
        target: bytes = PODS,
        impersonated: str = "bob",
        media_type: str = "application/json",
        is_upgrade: bool = False,
    ) -> None:
        request = DeniedRequest(b"GET", target, is_upgrade, UserInfo(impersonated))
        self.detector.resolve(media_type, body, request, self.results.append)

    @property
    def counted(self) -> float | None:
        return self.registry.get_sample_value("understudy_proxy_permission_denials_total")


def message_of(name: str, permission: str = IMPERSONATE) -> str:
    return f'users "bob" is forbidden: User "{name}" cannot {permission}'


def denial_of(name: str, permission: str = IMPERSONATE, **members: object) -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message_of(name, permission),
        "reason": "Forbidden",
        "details": {"name": "bob", "kind": "users"},
        "code": 403,
    }
    return json.dumps({**status, **members}).encode()


def held() -> HeldResponse:
    return HeldResponse(HEAD, denial_type="application/json")


@pytest.mark.parametrize("size", [1, 7, len(STATUS)])
def test_status_is_held_in_parts_of_any_size(size: int) -> None:
    response = held()
    parts = [STATUS[at : at + size] for at in range(0, len(STATUS), size)]

    assert all(response.append(part) for part in parts)
    assert response.body == STATUS


def test_response_is_released_with_the_part_that_shows_another_kind() -> None:
    response = held()

    assert response.append(b'{"kind":')
    assert not response.append(b'"Pod"')
    assert response.body == b'{"kind":"Pod"'


def test_response_is_released_when_it_is_longer_than_any_denial() -> None:
    response = held()

    assert response.append(STATUS)
    assert response.append(b" " * (MAX_DENIAL_BYTES - len(STATUS)))
    assert not response.append(b" ")


def test_response_without_denial_type_is_held_whatever_its_body_is() -> None:
    response = HeldResponse(HEAD)

    assert response.append(b"anything")
    assert response.append(b" " * (MAX_DENIAL_BYTES + 1))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([JSON_TYPE], "application/json"),
        ([(b"content-type", b" Application/JSON; charset=utf-8")], "application/json"),
        (
            [(b"Content-Type", b"application/vnd.kubernetes.protobuf")],
            "application/vnd.kubernetes.protobuf",
        ),
        ([(b"Content-Type", b"application/yaml")], "application/yaml"),
        ([(b"Content-Type", b"application/cbor")], "application/cbor"),
        ([(b"Content-Type", b"text/plain")], None),
        ([(b"Content-Type", b"application/json\xff")], None),
        ([JSON_TYPE, (b"Content-Encoding", b"gzip")], None),
        ([], None),
    ],
    ids=str,
)
def test_denial_has_a_media_type_of_the_api_server(
    headers: list[Header], expected: str | None
) -> None:
    lines = HEAD.lines + encode_header_lines(headers)

    assert denial_type(HEAD._replace(lines=lines)) == expected


@pytest.mark.parametrize(
    ("framing", "may_be_denial"),
    [
        (CHUNKED, True),
        (BodyFraming(BodyKind.LENGTH, 1), True),
        (BodyFraming(BodyKind.LENGTH, MAX_DENIAL_BYTES), True),
        (BodyFraming(BodyKind.LENGTH, MAX_DENIAL_BYTES + 1), False),
        (BodyFraming(BodyKind.LENGTH, 0), False),
        (UNTIL_CLOSE, False),
        (NO_BODY, False),
    ],
    ids=str,
)
def test_denial_has_a_short_body_that_ends_before_the_connection(
    framing: BodyFraming, *, may_be_denial: bool
) -> None:
    lines = HEAD.lines + encode_header_lines([JSON_TYPE])

    found = denial_type(HEAD._replace(lines=lines, framing=framing))

    assert (found is not None) is may_be_denial


@pytest.mark.parametrize("name", [FORWARDER, FORMER])
def test_denial_of_the_forwarder_is_an_error_of_the_proxy(name: str) -> None:
    detection = Detection()

    detection.resolve(denial_of(name))

    (error,) = detection.results
    assert isinstance(error, ProxyPermissionMissing)
    assert error.message == f"the proxy's own identity cannot {IMPERSONATE}"
    assert detection.counted == 1
    assert detection.permissions.questions == []


@pytest.mark.parametrize(
    ("body", "impersonated"),
    [
        (denial_of("bob"), "bob"),
        (denial_of(FORMER), FORMER),
        (denial_of("another-forwarder"), "bob"),
        (denial_of(FORWARDER, code=404), "bob"),
        (denial_of(FORWARDER, message=f"note: {message_of(FORWARDER)}"), "bob"),
        (b"not JSON", "bob"),
    ],
    ids=["impersonated user", "earlier name", "other name", "404", "text before", "not JSON"],
)
def test_other_denial_is_the_clients_own(body: bytes, impersonated: str) -> None:
    detection = Detection(Permissions(is_missing=True))

    detection.resolve(body, impersonated=impersonated)

    assert detection.results == [None]
    assert detection.counted == 0


def test_denial_of_a_request_with_many_selector_terms_is_an_error_of_the_proxy() -> None:
    detection = Detection()

    detection.resolve(denial_of(FORWARDER), target=PODS + b"?labelSelector=a" + b",a" * 5000)

    assert isinstance(detection.results[0], ProxyPermissionMissing)


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize(
    ("body", "target", "media_type", "is_upgrade", "name"),
    [
        (denial_of(FORWARDER), LOG, "application/json", False, "bob"),
        (denial_of(FORWARDER), b"/apis/a.example/v1/b", "application/json", False, "bob"),
        (denial_of(FORWARDER), PODS, "application/json", True, "bob"),
        (message_of(FORWARDER).encode(), PODS, "application/yaml", False, ""),
    ],
    ids=["kubelet", "aggregated server", "upgrade", "not parsed"],
)
def test_denial_that_others_can_write_is_confirmed_first(
    body: bytes, target: bytes, media_type: str, name: str, *, is_upgrade: bool, is_missing: bool
) -> None:
    detection = Detection(Permissions(is_missing=is_missing))

    detection.resolve(body, target=target, media_type=media_type, is_upgrade=is_upgrade)

    assert detection.permissions.questions == [("bob", name)]
    (error,) = detection.results
    assert isinstance(error, ProxyPermissionMissing) is is_missing
    assert detection.counted == int(is_missing)


def test_denial_is_not_counted_before_it_is_confirmed() -> None:
    detection = Detection(Permissions(is_held=True))
    detection.resolve(denial_of(FORWARDER), target=LOG)
    assert (detection.results, detection.counted) == ([], 0)

    detection.permissions.pending[0](True)  # noqa: FBT003 - the result

    assert isinstance(detection.results[0], ProxyPermissionMissing)
    assert detection.counted == 1


def test_denial_of_another_permission_counts_only_from_the_api_server_itself() -> None:
    detection = Detection(Permissions(is_missing=True))

    detection.resolve(denial_of(FORWARDER, GET_PODS), target=LOG)
    detection.resolve(denial_of(FORWARDER, GET_PODS), target=PODS)

    first, second = detection.results
    assert first is None
    assert isinstance(second, ProxyPermissionMissing)
    assert detection.permissions.questions == []


def test_missing_permission_is_logged_once_per_interval_but_always_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    detection = Detection()
    lines = []
    with caplog.at_level(logging.ERROR):
        for seconds in (0, REPORT_INTERVAL_SECONDS - 1, 1):
            detection.clock.advance(seconds)
            detection.resolve(denial_of(FORWARDER))
            lines.append(caplog.messages.count("proxy permission missing"))
        detection.resolve(denial_of(FORWARDER, GET_PODS))

    assert lines == [1, 1, 2]
    assert caplog.messages.count("proxy permission missing") == 3
    assert detection.counted == 4


def test_detector_recognizes_every_name_that_was_added_and_no_other() -> None:
    detector = Detection().detector

    assert detector.is_proxy_denial(FORMER)
    assert detector.is_proxy_denial(FORWARDER)
    assert not detector.is_proxy_denial("bob")
