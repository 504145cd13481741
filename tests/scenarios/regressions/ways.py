"""Every way a request can take through the proxy, so that a rule can be held against all of them.

`take_every_way` sends the same headers on each and tells what came of it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.support.http_client import Headers, HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
    switch_protocols,
)

Connecting = Callable[[], AbstractAsyncContextManager[HttpClient]]

EXEC = "/api/v1/namespaces/n/pods/p/exec?command=id"
PLAIN_WAYS = {
    "list": ("GET", "/api/v1/pods"),
    "head": ("HEAD", "/api/v1/namespaces/n/pods/p"),
    "write": ("POST", "/api/v1/namespaces/n/configmaps"),
    "watch": ("GET", "/api/v1/pods?watch=1"),
    "log": ("GET", "/api/v1/namespaces/n/pods/p/log?follow=1"),
    "proxied": ("GET", "/api/v1/namespaces/n/services/s/proxy/a"),
    "aggregated": ("GET", "/apis/metrics.k8s.io/v1beta1/nodes"),
    "discovery": ("GET", "/apis"),
    "version": ("GET", "/version"),
    "health": ("GET", "/healthz"),
    "live": ("GET", "/livez?verbose"),
    "ready": ("GET", "/readyz"),
    "metrics": ("GET", "/metrics"),
    "missing": ("GET", "/nowhere"),
    "failing": ("GET", "/api/v1/nodes?limit=500"),
}
UPGRADES = {"spdy": ("POST", "SPDY/3.1"), "websocket": ("GET", "websocket")}
WAYS = [*PLAIN_WAYS, *UPGRADES]


async def answer_on_every_way(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Do what the way asks for: switch protocols, stream, fail, or tell who is acting."""
    if request.values("upgrade"):
        await switch_protocols(connection, request)
    elif "watch=1" in request.target or "follow=1" in request.target:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.send(b"5\r\nevent\r\n0\r\n\r\n")
    elif "nowhere" in request.target or "limit=500" in request.target:
        await connection.respond(b"no", status="404 Not Found")
    else:
        await echo(connection, request)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a request on one way: the answer's status, and what arrived, if anything."""

    way: str
    status: int
    arrived: list[SeenRequest]


async def take_every_way(
    api: ScriptedApiServer, connect: Connecting, headers: Headers
) -> list[Taken]:
    """Send these headers on every way, each on a connection of its own."""
    api.script = answer_on_every_way
    taken = []
    for way in WAYS:
        before = len(api.requests)
        async with connect() as client:
            status = await _take(way, client, headers)
        taken.append(Taken(way, status, api.requests[before:]))
    return taken


async def _take(way: str, client: HttpClient, headers: Headers) -> int:
    if way in UPGRADES:
        method, protocol = UPGRADES[way]
        wish = [("Connection", "Upgrade"), ("Upgrade", protocol)]
        await client.send(request_bytes(method, EXEC, headers=[*wish, *headers]))
        return (await client.read_head()).status
    method, target = PLAIN_WAYS[way]
    body = b"hello" if method == "POST" else b""
    return (await client.request(method, target, headers=headers, body=body)).status


def claims(request: SeenRequest) -> Headers:
    """Return every line that says who somebody is, however spelled; a fingerprint is a star."""
    prefixes = ("impersonate", "x-remote", "authorization", "x-forwarded", "forwarded", "x-real")
    return [
        (name, "*" if "credential-id" in name else value)
        for name, value in request.headers
        if name.lower().replace("_", "-").replace(".", "-").startswith(prefixes)
    ]
