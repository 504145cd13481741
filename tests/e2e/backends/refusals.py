"""Refusals: denials that name the proxy, other refusals, and upgrades that are refused."""

import json

from tests.core.selfcheck.test_denial import protobuf
from tests.e2e.backends.answers import (
    CHUNK,
    EVERYWHERE,
    FINAL,
    IDENTITY_LINES,
    JSON,
    MEBIBYTE,
    PLAIN,
    PROTOBUF,
    SMUGGLED,
    TRAILERS,
    YAML,
    Case,
    answer,
    chunked,
    flushed,
    interim_head,
    keeping,
)
from tests.e2e.backends.stage import FORWARDER, POD, REVIEWER, Request
from tests.support.hostile_backend import Script, Then


def _status(code: int, reason: str, message: str, **details: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def _denial(user: str) -> str:
    right = 'impersonate resource "users" in API group "" at the cluster scope'
    return f'users "alice" is forbidden: User "{user}" cannot {right}'


def _yaml_denial(user: str) -> bytes:
    return f"apiVersion: v1\ncode: 403\nkind: Status\nmessage: '{_denial(user)}'\n".encode()


def _refusal(code: str, media_type: str, body: bytes, *lines: str) -> Case:
    raw = answer(f"Content-Type: {media_type}", *lines, status=code, body=body)
    return Case(Script((raw,)), routes=EVERYWHERE)


def _json_denial(user: str, **changes: object) -> bytes:
    status = _status(403, "Forbidden", _denial(user), name="alice", kind="users")
    return json.dumps({**status, **changes}).encode()


_UNAUTHORIZED = json.dumps(_status(401, "Unauthorized", "Unauthorized")).encode()
_F, _U, _S = "403 Forbidden", "401 Unauthorized", "500 Internal Server Error"
_BARE = f'forbidden: User "{FORWARDER}" cannot get path "/"'
# kube-apiserver makes a Status of what a kubelet answers: its own details, the kubelet's text.
_OF_LOG = f'pods/log "{POD}" is {_BARE}'
DENIALS = {
    "403-names-the-forwarder-json": _refusal(_F, JSON, _json_denial(FORWARDER)),
    "403-names-the-forwarder-protobuf": _refusal(
        _F, PROTOBUF, protobuf(_denial(FORWARDER), name="alice")
    ),
    "403-names-the-forwarder-yaml": _refusal(_F, YAML, _yaml_denial(FORWARDER)),
    "403-names-the-forwarder-in-chunks": keeping(
        chunked(
            b"%x\r\n%b\r\n" % (len(_json_denial(FORWARDER)), _json_denial(FORWARDER)),
            lines=(f"Content-Type: {JSON}",),
        ).replace(b"200 OK", b"403 Forbidden")
    ),
    "403-names-the-forwarder-bare-text": _refusal(_F, PLAIN, _BARE.encode()),
    "403-names-the-forwarder-in-a-status-of-the-api-server": Case(
        Script((answer(status=_F, body=_OF_LOG.encode()),)), routes=("log",)
    ),
    "403-names-the-forwarder-in-yaml-of-the-api-server": Case(
        Script((answer(status=_F, body=_BARE.encode()),)),
        Request(headers=(("Accept", YAML),)),
        ("log",),
    ),
    "403-names-the-forwarder-slowly": Case(
        Script(
            (
                answer(
                    f"Content-Type: {JSON}",
                    f"Content-Length: {len(_json_denial(FORWARDER))}",
                    status=_F,
                    body=b"",
                    length=False,
                ),
                0.1,
                _json_denial(FORWARDER)[:40],
                0.3,
                _json_denial(FORWARDER)[40:],
            )
        ),
        routes=("node", "aggregated"),
    ),
    "403-names-the-reviewer-json": _refusal(_F, JSON, _json_denial(REVIEWER)),
}
REFUSALS = {
    "403-names-another-user": _refusal(_F, JSON, _json_denial("bob")),
    "403-of-70-kilobytes": _refusal(_F, JSON, _json_denial(FORWARDER, padding="x" * 70_000)),
    "403-that-breaks-off": flushed(
        answer(
            f"Content-Type: {JSON}",
            "Content-Length: 5000",
            status=_F,
            body=_json_denial(FORWARDER),
            length=False,
        )
    ),
    "500-names-the-forwarder": _refusal(_S, JSON, _json_denial(FORWARDER, code=500)),
    "401-json": _refusal(_U, JSON, _UNAUTHORIZED, 'WWW-Authenticate: Basic realm="own"'),
    "401-plain": _refusal(_U, PLAIN, b"login please", "WWW-Authenticate: Negotiate"),
    "401-names-the-forwarder": _refusal(_U, JSON, _json_denial(FORWARDER, code=401)),
    "401-of-1-megabyte": _refusal(_U, PLAIN, b"x" * MEBIBYTE),
    "401-that-breaks-off": flushed(answer("Content-Length: 50", status=_U, length=False)),
    "401-slowly": Case(
        Script(
            (
                answer("Content-Length: 10", status=_U, body=b"", length=False),
                0.3,
                b"hello",
                0.3,
                b"hello",
            )
        ),
        routes=("node", "aggregated"),
    ),
    "407": _refusal("407 Proxy Authentication Required", PLAIN, b"", "Proxy-Authenticate: Basic"),
    "429-with-a-huge-wait": _refusal(
        "429 Too Many Requests", PLAIN, b"later", "Retry-After: 999999999"
    ),
    "503-with-a-huge-wait": _refusal(
        "503 Service Unavailable", PLAIN, b"later", "Retry-After: 999999999"
    ),
    "504-of-the-backend": _refusal("504 Gateway Timeout", PLAIN, b"later"),
}


def _refusal_bytes(status: str) -> bytes:
    return answer(f"Content-Type: {JSON}", status=status, body=_json_denial("bob"))


UPGRADE_REQUEST = Request(
    headers=(
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    )
)


def _refused_upgrade(raw: bytes, then: Then = Then.CLOSE) -> Case:
    return Case(Script((raw,), then), UPGRADE_REQUEST)


# kube-apiserver writes what refuses an upgrade to the client nearly as it came.
UPGRADES = {
    "404": _refused_upgrade(answer(status="404 Not Found")),
    "404-kept-alive-with-a-second-answer": _refused_upgrade(
        answer("Connection: keep-alive", status="404 Not Found") + SMUGGLED, Then.KEEP
    ),
    "400-in-chunks-with-trailers": _refused_upgrade(
        chunked(CHUNK, end=TRAILERS).replace(b"200 OK", b"400 Bad Request")
    ),
    "400-with-a-length-and-in-chunks": _refused_upgrade(
        answer("Transfer-Encoding: chunked", status="400 Bad", body=CHUNK + b"0\r\n\r\n") + SMUGGLED
    ),
    "400-until-the-connection-ends": _refused_upgrade(answer(status="400 Bad", length=False)),
    "400-shorter-than-its-length": _refused_upgrade(
        answer("Content-Length: 50", status="400 Bad", length=False)
    ),
    "400-1.0": _refused_upgrade(answer(status="400 Bad", version="HTTP/1.0")),
    "400-with-hop-by-hop-headers": _refused_upgrade(
        answer(
            "Connection: X-Named, Content-Length", "X-Named: 1", "Upgrade: h2c", status="400 Bad"
        )
    ),
    "400-with-identity-headers": _refused_upgrade(
        answer(*IDENTITY_LINES, "Audit-Id: forged", status="400 Bad")
    ),
    "401": _refused_upgrade(_refusal_bytes(_U)),
    "403-names-another-user": _refused_upgrade(_refusal_bytes(_F)),
    "404-of-4000-headers": _refused_upgrade(
        answer(*(f"X-{number}: 1" for number in range(4000)), status="404 Not Found")
    ),
    "999": _refused_upgrade(answer(status="999 Odd")),
    "200": _refused_upgrade(FINAL),
    "204": _refused_upgrade(answer(status="204 No Content", body=b"", length=False)),
    "302": _refused_upgrade(answer("Location: /api/v1/secrets", status="302 Found")),
    "100-first": _refused_upgrade(interim_head("100 Continue") + answer(status="404 Not Found")),
    "nothing": _refused_upgrade(b""),
    "garbage": _refused_upgrade(b"\x00\xff garbage\r\n\r\n"),
}
DENIALS["403-names-the-forwarder-for-an-upgrade"] = _refused_upgrade(
    answer(f"Content-Type: {JSON}", status=_F, body=_json_denial(FORWARDER))
)
