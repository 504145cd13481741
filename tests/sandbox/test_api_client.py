import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import BearerToken, CertificateAuthority, Credential

AUTHORITY = CertificateAuthority("test")
OK = b'HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 8\r\n\r\n{"a": 1}'
NO = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!"


class Recorder:
    """A TLS server that keeps the bytes of each request and gives fixed answers in turn."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.connections = 0

    def client(self, credential: Credential = None) -> ApiClient:
        return ApiClient(self.url, ca_pem=AUTHORITY.certificate_pem, credential=credential)


@contextmanager
def recording(directory: Path, *answers: bytes) -> Iterator[Recorder]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*AUTHORITY.issue_server("127.0.0.1").write(directory, "serving"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recorder = Recorder(f"https://127.0.0.1:{listener.getsockname()[1]}")
        worker = threading.Thread(target=_serve, args=(listener, context, recorder, list(answers)))
        worker.start()
        yield recorder
        worker.join()


def _serve(
    listener: socket.socket, context: ssl.SSLContext, recorder: Recorder, answers: list[bytes]
) -> None:
    while answers:
        plain, _ = listener.accept()
        recorder.connections += 1
        # A client that does not trust us leaves during the handshake.
        with suppress(ssl.SSLError), context.wrap_socket(plain, server_side=True) as stream:
            while answers and (request := stream.recv(65536)):
                recorder.requests.append(request)
                stream.sendall(answers.pop(0))


def test_target_and_headers_go_out_byte_for_byte(tmp_path: Path) -> None:
    with recording(tmp_path, OK) as server:
        server.client().request(
            "GET",
            b"/a%2Fb//../?x=\xff y",
            headers=[("impersonate-USER", "bob"), (b"X-Odd", b" \xfe "), ("X-Odd", "")],
        )

    authority = server.url.removeprefix("https://").encode()
    assert server.requests == [
        b"GET /a%2Fb//../?x=\xff y HTTP/1.1\r\nHost: "
        + authority
        + b"\r\nimpersonate-USER: bob\r\nX-Odd:  \xfe \r\nX-Odd: \r\n\r\n"
    ]


def test_a_given_header_replaces_ours(tmp_path: Path) -> None:
    with recording(tmp_path, OK) as server:
        server.client(BearerToken("secret")).request(
            "POST",
            "/",
            headers=[("host", "x"), ("AUTHORIZATION", "y"), ("content-type", "z")],
            body={"k": "v"},
        )

    assert server.requests == [
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n"
        b'host: x\r\nAUTHORIZATION: y\r\ncontent-type: z\r\n\r\n{"k": "v"}'
    ]


def test_a_token_is_sent_as_a_bearer(tmp_path: Path) -> None:
    with recording(tmp_path, OK) as server:
        server.client(BearerToken("secret")).request("GET", "/")

    assert b"\r\nAuthorization: Bearer secret\r\n" in server.requests[0]


def test_an_answer_keeps_its_headers_in_order(tmp_path: Path) -> None:
    with recording(tmp_path, OK) as server:
        response = server.client().request("GET", "/")

    assert response == APIResponse(
        200, (("X-A", "1"), ("x-a", "2"), ("Content-Length", "8")), b'{"a": 1}'
    )
    assert response.header("x-A") == "1"
    assert response.header("missing") is None
    assert response.json() == {"a": 1}


def test_a_request_has_a_connection_of_its_own(tmp_path: Path) -> None:
    with recording(tmp_path, OK, OK) as server:
        client = server.client()
        client.request("GET", "/1")
        client.request("GET", "/2")

    assert server.connections == 2


def test_a_kept_connection_carries_several_requests(tmp_path: Path) -> None:
    with recording(tmp_path, OK, NO, OK) as server, server.client().connect() as connection:
        statuses = [connection.request("GET", "/").status for _ in range(3)]

    assert statuses == [200, 403, 200]
    assert server.connections == 1


def test_a_call_that_fails_says_what_was_answered(tmp_path: Path) -> None:
    with recording(tmp_path, NO) as server, pytest.raises(SandboxError) as failure:
        server.client().call("GET", "/secret")

    assert str(failure.value) == "GET /secret returned 403: no!"


def test_a_call_without_an_answer_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"

    with pytest.raises(SandboxError, match=r"^GET / received no response: .*refused"):
        ApiClient(url, ca_pem=AUTHORITY.certificate_pem).call("GET", "/")


def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    with recording(tmp_path, OK) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            ApiClient(server.url, ca_pem=CertificateAuthority("other").certificate_pem).request(
                "GET", "/"
            )
        server.client().request("GET", "/")


@pytest.mark.parametrize("url", ["https://127.0.0.1", "nonsense"])
def test_a_url_without_a_port_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not a server URL with a port"):
        ApiClient(url, ca_pem=AUTHORITY.certificate_pem)
