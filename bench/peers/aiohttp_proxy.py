"""A simple proxy with aiohttp: its server, its ClientSession, no tuning.

    python -m bench.peers.aiohttp_proxy --upstream=https://... --authority=... ...

It does what `bench/go/reverse_proxy.go` does and nothing else. It looks up the token, removes the
client's credential and identity headers, and impersonates the caller with its own credential.
Everything else is aiohttp's default (its event loop, its pool of a hundred connections), except the
access log, which is off.
"""

import argparse
import hashlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, web
from multidict import CIMultiDict

_HOP_HEADERS = frozenset({"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding"})
_IDENTITY_PREFIXES = ("impersonate-", "x-remote-")
_GROUPS = ("developers", "system:authenticated")
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy: one upstream, and the callers by the digest of their token."""

    upstream: str
    trust: ssl.SSLContext
    own_token: str
    callers: dict[bytes, str]

    def app(self) -> web.Application:
        """Return a server that forwards everything."""
        app = web.Application()
        session = web.AppKey("session", ClientSession)

        async def upstream_session(app: web.Application) -> AsyncIterator[None]:
            async with ClientSession(timeout=ClientTimeout(), auto_decompress=False) as opened:
                app[session] = opened
                yield

        async def forward(request: web.Request) -> web.StreamResponse:
            return await self._forward(request, app[session])

        app.cleanup_ctx.append(upstream_session)
        app.router.add_route("*", "/{path:.*}", forward)
        return app

    async def _forward(self, request: web.Request, session: ClientSession) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix(_BEARER)
        name = self.callers.get(hashlib.sha256(token.encode()).digest())
        if name is None:
            return web.Response(status=401, text="Unauthorized")
        async with session.request(
            request.method,
            self.upstream + request.raw_path,
            headers=self._outbound(request, name),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
            ssl=self.trust,
        ) as upstream_response:
            kept = [
                pair
                for pair in upstream_response.headers.items()
                if pair[0].lower() not in _HOP_HEADERS
            ]
            response = web.StreamResponse(
                status=upstream_response.status, headers=CIMultiDict(kept)
            )
            await response.prepare(request)
            async for piece in upstream_response.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    def _outbound(self, request: web.Request, name: str) -> CIMultiDict[str]:
        headers = CIMultiDict(
            pair
            for pair in request.headers.items()
            if pair[0].lower() not in _HOP_HEADERS
            and not pair[0].lower().startswith(_IDENTITY_PREFIXES)
        )
        headers["Authorization"] = _BEARER + self.own_token
        headers["X-Forwarded-For"] = request.remote or ""
        headers["Impersonate-User"] = name
        for group in _GROUPS:
            headers.add("Impersonate-Group", group)
        return headers


def main() -> None:
    """Serve on any free loopback port until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("upstream", "caller"):
        parser.add_argument(f"--{option}", required=True)
    for option in ("authority", "certificate", "key", "own-token-file", "client-token-file"):
        parser.add_argument(f"--{option}", required=True, type=Path)
    options = parser.parse_args()
    token: str = options.client_token_file.read_text()
    proxy = Proxy(
        options.upstream,
        ssl.create_default_context(cafile=options.authority),
        options.own_token_file.read_text(),
        {hashlib.sha256(token.encode()).digest(): options.caller},
    )
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(options.certificate, options.key)
    web.run_app(
        proxy.app(), host="127.0.0.1", port=0, ssl_context=serving, access_log=None, print=None
    )


if __name__ == "__main__":
    main()
