"""More than one accepted connection in a turn of the event loop.

uvloop accepts one connection per listening handle and turn. A turn of a busy loop takes
milliseconds, so a flood of connections fills the kernel's queue of 4096, which is first come,
first served: whoever comes next waits for seconds, from whatever address. Handles that share one
listening socket accept one connection each, and the queue is emptied by the caps of the listener.
"""

import asyncio
import os
import socket
from collections.abc import Callable

# Accepting costs about 0.1 ms a connection, so this adds at most a millisecond to a turn.
_ACCEPTED_PER_TURN = 8


async def handles_beside(
    server: asyncio.Server, new_connection: Callable[[], asyncio.BaseProtocol], *, backlog: int
) -> list[asyncio.Server]:
    """Return more handles of a server's listening socket; they do not accept yet."""
    loop = asyncio.get_running_loop()
    descriptor = server.sockets[0].fileno()
    return [
        await loop.create_server(
            new_connection,
            sock=socket.socket(fileno=os.dup(descriptor)),
            backlog=backlog,
            start_serving=False,
        )
        for _ in range(_ACCEPTED_PER_TURN - 1)
    ]
