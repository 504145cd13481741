"""A small synchronous client of an API server, for the demo and the tests.

    client = ApiClient(server.url, ca_pem=server.ca_pem, credential=alice)
    answer = client.request("GET", "/api/v1/pods?watch=0", headers=[("Impersonate-User", "bob")])
    answer.status, answer.header("Content-Type"), answer.json()
    pod = client.call("GET", "/api/v1/namespaces/default/pods/p")   # raises unless 2xx

It sends the target and the headers byte for byte and in order, invalid ones included. A default
header is not added if the caller gives one of that name. Each request uses a new connection, except
within `with client.connect() as connection: connection.request(...)`.
"""

import json
import os
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import BearerToken, Credential, KeyPair

Text = str | bytes
Headers = Sequence[tuple[Text, Text]]
# A Kubernetes object as JSON; the API server validates its fields.
Manifest = Mapping[str, Any]

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class APIResponse:
    """A response. Header order and duplicates are kept."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header of that name, ignoring case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def json(self) -> Any:
        """Parse the body as JSON."""
        return json.loads(self.body)


class ApiConnection:
    """One TLS connection, for sequential requests."""

    def __init__(self, stream: ssl.SSLSocket, *, authority: str, token: str | None) -> None:
        self._stream = stream
        self._authority = authority
        self._token = token

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()

    def request(
        self,
        method: str,
        target: Text,
        *,
        headers: Headers = (),
        body: Manifest | bytes | None = None,
    ) -> APIResponse:
        """Send one request and read its whole response."""
        content, lines = self._head(headers, body)
        start = b"%s %s HTTP/1.1" % (method.encode(), _raw(target))
        self._stream.sendall(b"\r\n".join([start, *lines, b"", b""]) + content)
        with HTTPResponse(self._stream, method=method) as response:
            response.begin()
            return APIResponse(response.status, tuple(response.getheaders()), response.read())

    def _head(self, headers: Headers, body: Manifest | bytes | None) -> tuple[bytes, list[bytes]]:
        """Return the body's bytes and the header lines, the given ones last and unchanged."""
        given = {_raw(name).lower() for name, _ in headers}
        defaults: list[tuple[Text, Text]] = [("Host", self._authority)]
        if self._token is not None:
            defaults.append(("Authorization", f"Bearer {self._token}"))
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            defaults.append(("Content-Type", "application/json"))
            defaults.append(("Content-Length", str(len(content))))
        pairs = [pair for pair in defaults if _raw(pair[0]).lower() not in given] + list(headers)
        return content, [b"%s: %s" % (_raw(name), _raw(value)) for name, value in pairs]


class ApiClient:
    """One server and one credential. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        *,
        ca_pem: bytes,
        credential: Credential = None,
        source: str | None = None,
    ) -> None:
        """`source` is the local address to connect from; None leaves it to the system."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"not a server URL with a port: {url}")
        self._host, self._port = parts.hostname, parts.port
        self._authority = parts.netloc
        self._source = None if source is None else (source, 0)
        self._context = client_context(ca_pem, credential)
        self._token = credential.value if isinstance(credential, BearerToken) else None

    def connect(self) -> ApiConnection:
        """Open a persistent connection; leaving its `with` block closes it."""
        plain = socket.create_connection(
            (self._host, self._port), TIMEOUT_SECONDS, source_address=self._source
        )
        # A failed handshake closes the socket: wrapping takes ownership before the handshake.
        stream = self._context.wrap_socket(plain, server_hostname=self._host)
        return ApiConnection(stream, authority=self._authority, token=self._token)

    def request(
        self,
        method: str,
        target: Text,
        *,
        headers: Headers = (),
        body: Manifest | bytes | None = None,
    ) -> APIResponse:
        """Send one request on a new connection; every status is returned."""
        with self.connect() as connection:
            return connection.request(method, target, headers=headers, body=body)

    def call(
        self,
        method: str,
        target: Text,
        *,
        headers: Headers = (),
        body: Manifest | bytes | None = None,
    ) -> Any:
        """Return the JSON response of a request that must succeed; raise SandboxError otherwise."""
        try:
            response = self.request(method, target, headers=headers, body=body)
        except (OSError, HTTPException) as error:
            raise SandboxError(f"{method} {target!s} received no response: {error}") from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's own definition of success
            message = response.body.decode(errors="replace").strip()
            raise SandboxError(f"{method} {target!s} returned {response.status}: {message}")
        return response.json()


def client_context(ca_pem: bytes, credential: Credential = None) -> ssl.SSLContext:
    """Return a TLS context that trusts one CA and presents the credential's certificate."""
    context = ssl.create_default_context(cadata=ca_pem.decode("ascii"))
    if isinstance(credential, KeyPair):
        # The standard library reads certificates from files only. This file is removed at once.
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = credential.write(Path(directory), "client")
            context.load_cert_chain(os.fspath(certificate), os.fspath(key))
    return context


def _raw(text: Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
