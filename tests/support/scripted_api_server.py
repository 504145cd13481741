"""An API server that does as it is told, down to the byte.

It answers reviews by itself. Everything else is recorded, held against the one rule that no
request may break (exactly one identity, ours the only credential), and answered by a script.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificates
from tests.support.proxy_calls import OwnCalls

OWN_TOKEN = "the-token-of-the-proxy"
OWN_NAME = "system:serviceaccount:understudy:proxy"
REVIEWER_NAME = "system:serviceaccount:understudy:reviewer"
REVIEWS = "/apis/auth"
NO_ANSWER = "no answer"
UNAUTHORIZED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
)


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it arrived; headers keep their order and spelling."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int

    def values(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def user(self) -> str:
        """Who the request is to be carried out as."""
        return self.values("impersonate-user")[0]


class ScriptedConnection:
    """One connection of the proxy."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.closed = asyncio.Event()
        self.client_name = _common_name(writer)

    async def read_head(self) -> SeenRequest:
        """Read a request up to its body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")[:-2]
        method, target, version = first.split(" ")
        assert version == "HTTP/1.1"
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return SeenRequest(method, target, headers, b"", self.number)

    async def read_body(self, head: SeenRequest) -> bytes:
        """Read the body that the head announces."""
        if head.values("transfer-encoding"):
            assert head.values("transfer-encoding") == ["chunked"]
            assert not head.values("content-length")
            return await self._read_chunks()
        lengths = head.values("content-length")
        return await self.reader.readexactly(int(lengths[0])) if lengths else b""

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(
        self, body: bytes = b"ok", *, status: str = "200 OK", headers: tuple[str, ...] = ()
    ) -> None:
        """Send a whole answer with its length."""
        lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
        await self.send("\r\n".join(lines).encode() + body)

    async def cut(self) -> None:
        """End the stream without a goodbye, after what was sent before."""
        # uvloop writes at the end of its turn; what it has not written, an abort drops.
        for _ in range(2):
            await asyncio.sleep(0)
        self.writer.transport.abort()

    def close(self) -> None:
        """Say goodbye and close."""
        self.writer.close()

    async def _read_chunks(self) -> bytes:
        pieces = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            pieces.append(await self.reader.readexactly(size))
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return b"".join(pieces)


def _common_name(writer: asyncio.StreamWriter) -> str | None:
    """Return whom the certificate shown on a connection names."""
    certificate = writer.get_extra_info("peercert") or {}
    attributes = [attribute for part in certificate.get("subject", ()) for attribute in part]
    return dict(attributes).get("commonName")


Script = Callable[[ScriptedConnection, SeenRequest], Awaitable[None]]


async def echo(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Read the whole request, and answer whom it was carried out as."""
    body = await connection.read_body(request)
    answer = {"user": request.user, "target": request.target, "bytes": len(body)}
    await connection.respond(
        b"" if request.method == "HEAD" else json.dumps(answer).encode(),
        headers=("Content-Type: application/json",),
    )


async def switch_protocols(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Accept the upgrade that the request asks for."""
    protocol = request.values("upgrade")[0].encode()
    await connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % protocol
    )


@dataclass(slots=True)
class ScriptedApiServer:
    """What the script is, and what was seen."""

    address: tuple[str, int]
    script: Script = echo
    tokens: dict[str, str] = field(default_factory=dict)
    token_statuses: dict[str, dict[str, object]] = field(default_factory=dict)
    access_status: object = field(default_factory=lambda: {"allowed": True})
    review_status: str = "201 Created"
    review_headers: tuple[str, ...] = ()
    review_script: Script | None = None
    """Answers access and token reviews in the place of the server, once the request was read."""
    seen_reviews: list[SeenRequest] = field(default_factory=list)
    review_gate: asyncio.Event = field(default_factory=asyncio.Event)
    held_verbs: str = ""
    """Access reviews of verbs that begin so are answered when `held_gate` opens."""
    held_gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    refused_verbs: str = ""
    """Access reviews of verbs that begin so are answered 500."""
    review_faults: dict[str, str] = field(default_factory=dict)
    """Statuses of the reviews of some users; NO_ANSWER: answered when `held_gate` opens."""
    own_name: str = OWN_NAME
    names_of_tokens: dict[str, str] = field(default_factory=dict)
    """Who the proxy is by some of its tokens, if not `own_name`."""
    gate_of: Callable[[SeenRequest], asyncio.Event | None] = lambda _: None
    """What a review waits for besides the gate of all, if anything."""
    own_groups: list[str] = field(default_factory=list)
    has_self_reviews: bool = True
    own_calls: OwnCalls = field(default_factory=OwnCalls)
    own_tokens: set[str] = field(default_factory=lambda: {OWN_TOKEN})
    own_certificates: set[str] = field(default_factory=set)
    reviewer_tokens: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    refused: list[SeenRequest] = field(default_factory=list)
    reviews: list[SeenRequest] = field(default_factory=list)
    requests: list[SeenRequest] = field(default_factory=list)
    under_review: list[str] = field(default_factory=list)
    reviewed_tokens: list[str] = field(default_factory=list)
    reviewed_access: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    connections: dict[int, ScriptedConnection] = field(default_factory=dict)
    opened: int = 0
    stop_listening: Callable[[], None] = lambda: None
    forwarding: set[int] = field(default_factory=set)

    @property
    def open_forwarding(self) -> int:
        """How many open connections have carried forwarded requests."""
        return len(self.forwarding & self.connections.keys())

    @property
    def probes(self) -> int:
        """How often we were asked who the proxy is."""
        return sum(request.target.endswith("/selfsubjectreviews") for request in self.reviews)

    def withdraw(self, token: str) -> None:
        """Accept a token of the proxy no more, while it stays known as one of its tokens."""
        self.own_tokens.discard(token)
        self.withdrawn.add(token)

    def write_kubeconfig(self, directory: Path, ca_file: Path) -> Path:
        """Write the proxy's own credential for this server."""
        host, port = self.address
        server = f"https://{host}:{port}"
        file = directory / "kubeconfig.yaml"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
            ],
            "users": [{"name": "u", "user": {"token": OWN_TOKEN}}],
        }
        file.write_text(json.dumps(document))
        return file

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends, however that is."""
        connection = ScriptedConnection(self.opened, reader, writer)
        self.opened += 1
        self.connections[connection.number] = connection
        try:
            while not writer.is_closing():
                await self._serve_one(connection)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # The proxy has left, or the script has cut it off.
        except Exception as error:  # noqa: BLE001 - a faulty script must not go unseen
            self.violations.append(f"the script failed: {error!r}")
        finally:
            del self.connections[connection.number]
            connection.closed.set()
            writer.close()

    async def _serve_one(self, connection: ScriptedConnection) -> None:
        request = await connection.read_head()
        if not self._accepts(connection, request):
            self.refused.append(request)
            await connection.read_body(request)
            await connection.respond(
                UNAUTHORIZED,
                status="401 Unauthorized",
                headers=("Content-Type: application/json",),
            )
            return
        if not request.values("impersonate-user") and self.own_calls.concern(request.target):
            await self._own_call(connection, request)
            return
        if not self.has_self_reviews and request.target.endswith("/selfsubjectreviews"):
            await connection.read_body(request)
            await connection.respond(b"{}", status="404 Not Found")
            return
        if request.target.startswith(REVIEWS):
            await self._review(connection, request)
            return
        self.forwarding.add(connection.number)
        self.requests.append(request)
        self.violations += violations_of(request, self._own_authorization())
        await self.script(connection, request)

    def _accepts(self, connection: ScriptedConnection, request: SeenRequest) -> bool:
        """Authenticate as an API server does: before anything else, by token or certificate."""
        shown = request.values("authorization")
        if shown:
            # What is nobody's token at all is let through, to be told as a violation.
            return shown[0].removeprefix("Bearer ") not in self.withdrawn
        return not self.own_certificates or connection.client_name in self.own_certificates

    def _is_reviewers(self, request: SeenRequest) -> bool:
        return request.values("authorization") in [
            [f"Bearer {one}"] for one in self.reviewer_tokens
        ]

    def _own_authorization(self) -> list[list[str]]:
        return [
            *([f"Bearer {token}"] for token in self.own_tokens),
            *([[]] if self.own_certificates else []),
        ]

    async def _own_call(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        body = json.loads(await connection.read_body(request) or b"{}")
        status, answer = self.own_calls.answer(request.target, body)
        if token := answer.get("status", {}).get("token"):
            self.own_tokens.add(token)
        await connection.respond(
            json.dumps(answer).encode(), status=status, headers=("Content-Type: application/json",)
        )

    async def _review(self, connection: ScriptedConnection, request: SeenRequest) -> None:
        review = json.loads(await connection.read_body(request))
        if request.values("impersonate-user"):
            self.violations.append("a review carries an impersonation")
        if self.own_calls.is_canary(review):
            answer = json.dumps(self.own_calls.canary(review)).encode()
            is_answered = self.own_calls.answers_canaries
            await connection.respond(
                answer,
                status="201 Created" if is_answered else "500 Internal Server Error",
                headers=("Content-Type: application/json",),
            )
            return
        self.seen_reviews.append(request)
        self.reviews.append(request)
        self.under_review.append(request.target)
        await self.review_gate.wait()
        if (gate := self.gate_of(request)) is not None:
            await gate.wait()
        fault = self.review_faults.get(review.get("spec", {}).get("user", ""))
        is_held = self.held_verbs and _verb(review).startswith(self.held_verbs)
        if is_held or fault == NO_ANSWER:
            self.held += 1
            await self.held_gate.wait()
        self.under_review.remove(request.target)
        if self.review_script is not None and not request.target.endswith("/selfsubjectreviews"):
            await self.review_script(connection, request)
            return
        review["status"] = self._review_status(request, review)
        is_refused = self.refused_verbs and _verb(review).startswith(self.refused_verbs)
        await connection.respond(
            json.dumps(review).encode(),
            status="500 Internal Server Error" if is_refused else fault or self.review_status,
            headers=("Content-Type: application/json", *self.review_headers),
        )

    def _review_status(self, request: SeenRequest, review: dict[str, dict[str, str]]) -> object:
        target = request.target
        if target.endswith("/selfsubjectreviews"):
            shown = (request.values("authorization") or [""])[0]
            token = shown.removeprefix("Bearer ")
            own_name = self.names_of_tokens.get(token, self.own_name)
            name = REVIEWER_NAME if token in self.reviewer_tokens else own_name
            return {"userInfo": {"username": name, "groups": self.own_groups}}
        if self.reviewer_tokens and not self._is_reviewers(request):
            self.violations.append(f"{target} does not come from the reviewer")
        if target.endswith("/subjectaccessreviews"):
            self.reviewed_access.append(review["spec"])
            return self.access_status
        token = review["spec"]["token"]
        self.reviewed_tokens.append(token)
        if token in self.token_statuses:
            return self.token_statuses[token]
        user = self.tokens.get(token)
        return {"authenticated": user is not None, "user": {"username": user or ""}}


def _verb(review: dict[str, dict[str, Any]]) -> str:
    spec = review.get("spec", {})
    attributes = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
    verb: str = attributes.get("verb", "")
    return verb


def violations_of(request: SeenRequest, own_authorization: list[list[str]]) -> list[str]:
    """Return how a forwarded request breaks the rule."""
    names = [name.lower() for name, _ in request.headers]
    found = []
    if names.count("impersonate-user") != 1 or not request.user:
        found.append("not exactly one identity")
    if request.values("authorization") not in own_authorization:
        found.append("not our credential alone")
    if any(name.startswith(("x-remote-", "x_remote", "impersonate_")) for name in names):
        found.append("an identity from elsewhere")
    if names.count("host") != 1 or names.count("audit-id") != 1:
        found.append("not one Host and one Audit-ID")
    return [f"{request.method} {request.target}: {fault}" for fault in found]


@asynccontextmanager
async def scripted_api_server(
    certificates: Certificates, *, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedApiServer]:
    """Run a scripted server; the script can be changed at any time."""
    api = ScriptedApiServer(("127.0.0.1", port))
    api.review_gate.set()
    context = context or certificates.server_context()
    server = await asyncio.start_server(
        api.serve, "127.0.0.1", port, ssl=context, limit=2 * 1024 * 1024
    )
    host, port = server.sockets[0].getsockname()[:2]
    api.address = (host, port)
    api.stop_listening = server.close
    try:
        yield api
    finally:
        server.close()
        api.review_gate.set()
        api.held_gate.set()
        for connection in list(api.connections.values()):
            await connection.cut()
            await connection.closed.wait()
