"""An authorization webhook that decides by policy and records every review it is asked.

    with RecordingWebhook(authority) as webhook:
        recording = webhook.record("native")          # one URL for each API server
        recording.url, recording.take()

It speaks just enough HTTP/1.1 for an API server, over TLS, on an event loop of its own.
"""

import asyncio
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import uvloop
from typing_extensions import override

from proxy.sandbox.identities import CertificateAuthority
from proxy.sandbox.processes import LOOPBACK
from tests.parity.policies import Policy, Question, Verdict, decide_deed
from tests.parity.renaming import FRESH, TOKEN_USER, Renaming

# The spec of a SubjectAccessReview, as the API server sent it.
Review = dict[str, Any]

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Rulebook:
    """Who may do what at present; replaced as a whole before each set of cases."""

    def __init__(self) -> None:
        self._renaming = Renaming(FRESH, TOKEN_USER)
        self._policies: Mapping[str, Policy] = {}

    def replace(self, renaming: Renaming, policies: Mapping[str, Policy]) -> None:
        """Decide by these policies, given by user name with placeholders, from now on."""
        self._renaming, self._policies = renaming, policies

    def decide(self, review: Review) -> Verdict:
        """Return the reply to a review."""
        question = _question(review, self._renaming)
        policy = self._policies.get(question.user)
        if question.is_about_impersonation and policy is not None:
            return policy.decide(question)
        return decide_deed(question)


class Recording:
    """The reviews one API server asked for, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._reviews: list[Review] = []

    def add(self, review: Review) -> None:
        """Remember a review."""
        self._reviews.append(review)

    def take(self) -> list[Review]:
        """Return what came since the last time."""
        taken, self._reviews = self._reviews, []
        return taken


class RecordingWebhook:
    """The server. Use it as a context manager."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self.rulebook = Rulebook()
        self.ca_pem = authority.certificate_pem
        self._context = _serving_context(authority)
        self._recordings: dict[bytes, Recording] = {}
        self._port = 0
        self._ready = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()
        self._thread.join()

    def record(self, name: str) -> Recording:
        """Return a new recording with a URL of its own."""
        path = f"/{name}"
        recording = Recording(f"https://{LOOPBACK}:{self._port}{path}")
        self._recordings[path.encode()] = recording
        return recording

    def answer(self, path: bytes, body: bytes) -> bytes:
        """Record one review and return the whole response to it."""
        spec: Review = json.loads(body)["spec"]
        # The API server's client adds the time it is willing to wait.
        recording = self._recordings[path.partition(b"?")[0]]
        recording.add(spec)
        return _response(self.rulebook.decide(spec))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await loop.create_server(
            lambda: _Conversation(self), LOOPBACK, 0, ssl=self._context
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await stopped.wait()
        server.close()


class _Conversation(asyncio.Protocol):
    """One connection: reviews one after the other."""

    def __init__(self, webhook: RecordingWebhook) -> None:
        self._webhook = webhook
        self._received = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of a class of their own.
        self._transport = cast(asyncio.Transport, transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        while (request := self._next_request()) is not None:
            self._transport.write(self._webhook.answer(*request))

    def _next_request(self) -> tuple[bytes, bytes] | None:
        head, end, rest = self._received.partition(_END_OF_HEAD)
        if not end:
            return None
        length = next(
            int(line[len(_LENGTH) :])
            for line in head.split(b"\r\n")
            if line[: len(_LENGTH)].lower() == _LENGTH
        )
        if len(rest) < length:
            return None
        self._received = rest[length:]
        return head.split(b" ", 2)[1], rest[:length]


def _serving_context(authority: CertificateAuthority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = authority.issue_server(LOOPBACK).write(Path(directory), "webhook")
        context.load_cert_chain(certificate, key)
    return context


def _question(review: Review, renaming: Renaming) -> Question:
    about = review.get("resourceAttributes") or review["nonResourceAttributes"]

    def text(key: str) -> str:
        return renaming.forget(about.get(key, ""))

    return Question(
        user=renaming.forget(review.get("user", "")),
        verb=text("verb"),
        group=text("group"),
        resource=text("resource"),
        subresource=text("subresource"),
        namespace=text("namespace"),
        name=text("name"),
        path=text("path"),
    )


def _response(verdict: Verdict) -> bytes:
    if verdict.decision == "error":
        # Not one that the API server's client would try again.
        return _message(b"422 Unprocessable Entity", _failure(verdict.text))
    allowed = verdict.decision in {"allow", "both"}
    denied = verdict.decision in {"deny", "both"}
    status: dict[str, object] = {"allowed": allowed, "denied": denied}
    if verdict.text:
        # An evaluation error of a webhook is not an error of the authorizer: natively it is lost.
        status |= {"reason": verdict.text, "evaluationError": "not to be seen"}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    return _message(b"200 OK", {**review, "status": status})


def _failure(message: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": message,
    }


def _message(status: bytes, document: Mapping[str, object]) -> bytes:
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body
