"""A relay that counts how often a decision waits for the API server.

    with ReviewRelay(server, credential, authority) as relay:
        relay.kubeconfig            # for the proxy's reviewer
        relay.take("bob")           # [{"user-info": 1}, {"user-info": 2}]: for bob one review was
                                    # sent, and after its response two reviews together

The relay is between a proxy and the real API server. It holds access reviews until no more arrive,
forwards them together, and counts that as one round trip. A review that was sent after a response
can never be in the same round trip. Reviews that were sent together are separated only if the
machine stalls for longer than the hold. So it may count too many, and never too few.
"""

import asyncio
import json
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from proxy.sandbox.api_client import client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.identities import CertificateAuthority, KeyPair, write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, ReservedPort

_HOLD_SECONDS = 0.05
_REVIEWS = "/subjectaccessreviews"
_START_SECONDS = 30.0


# The number of reviews of each mode in one round trip.
RoundTrip = Counter[str]


def review_mode(verb: str) -> str:
    """Return the mode of a review's verb; all verbs except the legacy one name it."""
    return "legacy" if verb == "impersonate" else verb.split(":")[1]


def most_in_one_mode(rounds: Sequence[RoundTrip]) -> int:
    """Return the largest number of round trips of any mode."""
    return max(Counter(mode for each in rounds for mode in each).values(), default=0)


class Rounds:
    """Reviews by round trip: they are held, and released together."""

    def __init__(self, hold_seconds: float) -> None:
        self._hold_seconds = hold_seconds
        self._held: list[asyncio.Future[None]] = []
        self._pending: list[tuple[str, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._rounds: list[list[tuple[str, str]]] = []

    async def join(self, user: str, verb: str) -> None:
        """Hold a review until no other has arrived for the hold time."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(self._hold_seconds, self._release)
        released = loop.create_future()
        self._held.append(released)
        self._pending.append((user, verb))
        await released

    def take(self, user: str) -> list[RoundTrip]:
        """Return the reviews about a user in each round trip so far, and reset all counts."""
        rounds, self._rounds = self._rounds, []
        by_round = [
            Counter(review_mode(verb) for name, verb in reviews if name == user)
            for reviews in rounds
        ]
        return [each for each in by_round if each]

    def _release(self) -> None:
        self._rounds.append(self._pending)
        held, self._held, self._pending = self._held, [], []
        for released in held:
            if not released.done():
                released.set_result(None)


def _user_and_verb(spec: Mapping[str, Any]) -> tuple[str, str]:
    attributes = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
    return spec.get("user", ""), attributes.get("verb", "")


class ReviewRelay:
    """The relay, on its own event loop in a thread. Use it as a context manager."""

    def __init__(
        self, server: ApiServer, credential: KeyPair, authority: CertificateAuthority
    ) -> None:
        self._server = server
        self._credential = credential
        self._authority = authority
        self._rounds = Rounds(_HOLD_SECONDS)
        self._port = ReservedPort()
        self._directory = tempfile.TemporaryDirectory(prefix="understudy-relay-")
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="review relay")
        self._started: Future[None] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_START_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()
        self._port.release()
        self._directory.cleanup()

    @property
    def kubeconfig(self) -> Path:
        """Write and return the kubeconfig; the relay presents the reviewer's credential itself."""
        return write_kubeconfig(
            Path(self._directory.name, "kubeconfig.yaml"),
            url=f"https://{LOOPBACK}:{self._port.number}",
            ca_pem=self._authority.certificate_pem,
            credential=self._credential,
        )

    def take(self, user: str) -> list[RoundTrip]:
        """Return the round trips of reviews about a user since the last call."""

        async def taken() -> list[RoundTrip]:
            return self._rounds.take(user)

        return asyncio.run_coroutine_threadsafe(taken(), self._loop).result(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        directory = Path(self._directory.name)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._authority.issue_server(LOOPBACK).write(directory, "serving"))
        upstream = client_context(self._server.ca_pem, self._credential)
        connector = aiohttp.TCPConnector(limit=0, ssl=upstream)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def forward(request: web.BaseRequest) -> web.Response:
                return await self._forward(request, session)

            runner = web.ServerRunner(web.Server(forward))
            await runner.setup()
            site = web.TCPSite(
                runner, LOOPBACK, self._port.number, ssl_context=context, reuse_port=True
            )
            await site.start()
            self._started.set_result(None)
            await self._stop.wait()
            await runner.cleanup()

    async def _forward(
        self, request: web.BaseRequest, session: aiohttp.ClientSession
    ) -> web.Response:
        body = await request.read()
        if request.path.endswith(_REVIEWS):
            await self._rounds.join(*_user_and_verb(json.loads(body)["spec"]))
        kind = request.headers.get("Content-Type", "application/json")
        async with session.request(
            request.method,
            self._server.url + request.raw_path,
            data=body,
            headers={"Content-Type": kind, "Accept": "application/json"},
        ) as response:
            return web.Response(
                status=response.status,
                body=await response.read(),
                content_type="application/json",
            )
