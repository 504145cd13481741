"""Connections to the API server: kept while idle, opened when none is."""

import asyncio
from collections.abc import Callable

from proxy.core.errors import UpstreamUnavailable
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.credentials import Endpoint
from proxy.wire.tasks import Tasks

# The API server closes idle connections after 90 s; ours end well before, so that a request
# seldom meets a connection that is just being closed.
IDLE_SECONDS = 45.0


class Pool:
    """Idle connections, newest first, so that a quiet time lets the others grow old."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_timeout_seconds: float,
        clock: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self._endpoint = endpoint
        self._connect_timeout_seconds = connect_timeout_seconds
        self._clock = clock
        self._tasks = tasks
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()

    def take_idle(self) -> UpstreamConnection | None:
        """Return a connection that is ready for a request, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def connect(self) -> UpstreamConnection:
        """Open a new connection."""
        # A task of its own, because a timeout needs one and the caller may not be in any.
        connecting = self._tasks.start(self._connect())
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Whoever wanted it has left, perhaps in the very moment it was ready.
            connecting.add_done_callback(self._keep_unwanted)
            raise

    def put_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection that has nothing left to do."""
        if connection.is_open:
            connection.is_reused = True
            connection.idle_since = self._clock()
            self._idle.append(connection)

    def close_old(self) -> None:
        """Close what has been idle for too long; called now and then."""
        oldest_allowed = self._clock() - IDLE_SECONDS
        for connection in [one for one in self._idle if one.idle_since < oldest_allowed]:
            self._idle.remove(connection)
            connection.close()

    def close(self) -> None:
        """Close every connection, busy ones too."""
        for connection in list(self._all):
            connection.abandon()

    async def _connect(self) -> UpstreamConnection:
        endpoint = self._endpoint
        connection = UpstreamConnection(endpoint, on_idle=self.put_back, on_lost=self._forget)
        is_ready = False
        try:
            async with asyncio.timeout(self._connect_timeout_seconds):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, endpoint.host, endpoint.port
                )
                self._all.add(connection)
                await connection.ready
                is_ready = True
        except (OSError, TimeoutError) as error:  # TLS errors are OSErrors
            raise UpstreamUnavailable("the API server cannot be reached") from error
        finally:
            if not is_ready:
                connection.abandon()
        return connection

    def _keep_unwanted(self, connecting: asyncio.Task[UpstreamConnection]) -> None:
        if not connecting.cancelled() and connecting.exception() is None:
            self.put_back(connecting.result())

    def _forget(self, connection: UpstreamConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
