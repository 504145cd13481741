"""Counts how often a decision waits for the API server.

    with ReviewRelay(server, credential, authority) as relay:
        relay.kubeconfig            # for the proxy's reviewer
        relay.take("bob")           # [{"user-info": 1}, {"user-info": 2}]: bob cost one question,
                                    # a wait for its answer, and then two questions together

The relay stands between a proxy and the real API server. It holds the access reviews that arrive
until no more come, lets them go all together, and calls that one round trip. What was asked only
after an answer can never be in the same one; what was asked together is parted only if the machine
stalls for longer than the hold. So it may count too many, and never too few.
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


# How many questions of each mode went together.
RoundTrip = Counter[str]


def mode_asked(verb: str) -> str:
    """Return the mode that a review's verb belongs to: all of them name it, but the legacy one."""
    return "legacy" if verb == "impersonate" else verb.split(":")[1]


def most_in_one_mode(rounds: Sequence[RoundTrip]) -> int:
    """Return how many round trips the mode took that took most of them."""
    return max(Counter(mode for each in rounds for mode in each).values(), default=0)


class Rounds:
    """Questions by round trip: what has come, waits, and is let go together."""

    def __init__(self, hold_seconds: float) -> None:
        self._hold_seconds = hold_seconds
        self._held: list[asyncio.Future[None]] = []
        self._asked: list[tuple[str, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._rounds: list[list[tuple[str, str]]] = []

    async def join(self, user: str, verb: str) -> None:
        """Wait until nobody else comes for a while."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(self._hold_seconds, self._let_go)
        leaving = loop.create_future()
        self._held.append(leaving)
        self._asked.append((user, verb))
        await leaving

    def take(self, user: str) -> list[RoundTrip]:
        """Return what was asked about a user in each round trip so far, and forget it all."""
        rounds, self._rounds = self._rounds, []
        about = [
            Counter(mode_asked(verb) for whose, verb in asked if whose == user) for asked in rounds
        ]
        return [each for each in about if each]

    def _let_go(self) -> None:
        self._rounds.append(self._asked)
        held, self._held, self._asked = self._held, [], []
        for leaving in held:
            if not leaving.done():
                leaving.set_result(None)


def _asked(spec: Mapping[str, Any]) -> tuple[str, str]:
    attributes = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
    return spec.get("user", ""), attributes.get("verb", "")


class ReviewRelay:
    """The relay, on an event loop of its own. Use it as a context manager."""

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
        """Who asks here needs no credential: the relay shows the reviewer's to the server."""
        return write_kubeconfig(
            Path(self._directory.name, "kubeconfig.yaml"),
            url=f"https://{LOOPBACK}:{self._port.number}",
            ca_pem=self._authority.certificate_pem,
            credential=self._credential,
        )

    def take(self, user: str) -> list[RoundTrip]:
        """Return the round trips of reviews about a user since the last time."""

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

            async def pass_on(request: web.BaseRequest) -> web.Response:
                return await self._pass_on(request, session)

            runner = web.ServerRunner(web.Server(pass_on))
            await runner.setup()
            site = web.TCPSite(
                runner, LOOPBACK, self._port.number, ssl_context=context, reuse_port=True
            )
            await site.start()
            self._started.set_result(None)
            await self._stop.wait()
            await runner.cleanup()

    async def _pass_on(
        self, request: web.BaseRequest, session: aiohttp.ClientSession
    ) -> web.Response:
        body = await request.read()
        if request.path.endswith(_REVIEWS):
            await self._rounds.join(*_asked(json.loads(body)["spec"]))
        kind = request.headers.get("Content-Type", "application/json")
        async with session.request(
            request.method,
            self._server.url + request.raw_path,
            data=body,
            headers={"Content-Type": kind, "Accept": "application/json"},
        ) as answer:
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                content_type="application/json",
            )
