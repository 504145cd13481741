"""The program of `api.py`: consoles that return the user info sent by the aggregator.

Started as `python -m proxy.sandbox.aggregated.server PORT CERTIFICATE KEY CLIENT_CA`.
"""

import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import WSMsgType, web

GROUP = "subresources.kubevirt.io"
CONSOLE_PROTOCOL = "plain.kubevirt.io"
VIRTUAL_MACHINE = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/virtualmachines/{{name}}"


def main() -> None:
    """Serve on 127.0.0.1 until a signal is received."""
    port, certificate, key, client_ca = sys.argv[1:]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(certificate, key)
    # A client that can connect can claim any user, so only the aggregator may connect.
    context.verify_mode = ssl.CERT_REQUIRED
    web.run_app(
        _application(),
        host="127.0.0.1",
        port=int(port),
        ssl_context=context,
        reuse_port=True,  # the parent process has reserved the port
        shutdown_timeout=0.1,  # consoles never end by themselves
        print=None,
    )


def _application() -> web.Application:
    routes: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        f"/apis/{GROUP}": _group,
        f"/apis/{GROUP}/v1": _resources,
        f"{VIRTUAL_MACHINE}/console": _console,
        f"{VIRTUAL_MACHINE}/unauthorized": _unauthorized,
        f"{VIRTUAL_MACHINE}/forbidden": _forbidden,
    }
    application = web.Application()
    application.add_routes([web.get(path, handler) for path, handler in routes.items()])
    return application


async def _group(_request: web.Request) -> web.Response:
    version = {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    return web.json_response(
        {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": GROUP,
            "versions": [version],
            "preferredVersion": version,
        }
    )


async def _resources(_request: web.Request) -> web.Response:
    subresources = ("console", "forbidden", "unauthorized")
    return web.json_response(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{GROUP}/v1",
            "resources": [
                {
                    "name": f"virtualmachines/{subresource}",
                    "singularName": "",
                    "namespaced": True,
                    "kind": "VirtualMachine",
                    "verbs": ["get"],
                }
                for subresource in subresources
            ],
        }
    )


async def _console(request: web.Request) -> web.StreamResponse:
    """Return the received user info; an upgraded connection then echoes every message."""
    socket = web.WebSocketResponse(protocols=(CONSOLE_PROTOCOL,))
    if not socket.can_prepare(request):
        return web.json_response(_received(request))
    await socket.prepare(request)
    await socket.send_json(_received(request))
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


async def _unauthorized(request: web.Request) -> web.Response:
    """Return a 401 of this server, which does not come from the API server."""
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Unauthorized",
            "message": "the console requires a separate login",
            "code": 401,
            "received": _received(request),
        },
        status=401,
        headers={"WWW-Authenticate": 'Basic realm="console"'},
    )


async def _forbidden(request: web.Request) -> web.Response:
    """Deny the user of the query with the exact text of kube-apiserver."""
    user = request.query["user"]
    cannot = 'impersonate resource "users" in API group "" at the cluster scope'
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'users "erin" is forbidden: User "{user}" cannot {cannot}',
            "reason": "Forbidden",
            "details": {"name": "erin", "kind": "users"},
            "code": 403,
        },
        status=403,
    )


def _received(request: web.Request) -> dict[str, Any]:
    """Return the received user info and trace in full, and other headers by name only."""
    names = sorted({name.lower() for name in request.headers})
    return {
        "method": request.method,
        "path": request.raw_path,
        "remote": {
            name: request.headers.getall(name) for name in names if name.startswith("x-remote-")
        },
        "headerNames": names,
        "traceparent": request.headers.get("traceparent"),
    }


if __name__ == "__main__":
    main()
