"""A client that asks for what it is denied, as fast as it gets answers, from a process of its own.

In the process that measures others it would slow down the measuring itself.
"""

import itertools
import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import KeyPair

CONNECTIONS = 4
# A client that heeds Retry-After would wait a second.
PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 60.0
Headers = list[tuple[str, str]]


def as_somebody(number: int) -> Headers:
    """Want to be somebody else each time."""
    return [("Impersonate-User", f"somebody-{number}")]


def with_a_guess(_number: int) -> Headers:
    """Show a token that is nobody's, another one each time."""
    return [("Authorization", f"Bearer {secrets.token_urlsafe(32)}")]


class Flood:
    """A flooding process, which pauses between the contexts of `running`."""

    def __init__(self, commands: Connection) -> None:
        self._commands = commands

    @contextmanager
    def running(self) -> Iterator[set[int]]:
        """Flood for the time of the context, from when it is told to slow down.

        The set holds every status that was seen, once the context is left.
        """
        statuses: set[int] = set()
        self._commands.send("start")
        assert self._commands.poll(PATIENCE_SECONDS), "the flood was never told to slow down"
        self._commands.recv()
        yield statuses
        self._commands.send("stop")
        statuses |= self._commands.recv()


@contextmanager
def flood(
    url: str,
    ca_pem: bytes,
    flooder: KeyPair | None,
    target: str,
    *,
    headers: Callable[[int], Headers] = as_somebody,
    source: str | None = None,
) -> Iterator[Flood]:
    """Start a process that can flood; `source` is its address, if any other than everybody's."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_flood,
        args=(
            theirs,
            partial(ApiClient, url, ca_pem=ca_pem, credential=flooder, source=source),
            target,
            headers,
        ),
    )
    process.start()
    try:
        yield Flood(ours)
    finally:
        process.terminate()
        process.join()
        process.close()
        ours.close()
        theirs.close()


def _flood(
    connection: Connection,
    new_client: Callable[[], ApiClient],
    target: str,
    headers: Callable[[int], Headers],
) -> None:
    os.nice(19)  # a flooder has a machine of its own: here it must not take ours from the measured
    client = new_client()
    while True:
        connection.recv()
        connection.send(_flood_once(connection, client, target, headers))


def _flood_once(
    connection: Connection, client: ApiClient, target: str, headers: Callable[[int], Headers]
) -> set[int]:
    """Flood until the next command, and return every status that was seen."""
    statuses: set[int] = set()
    limited, stop = threading.Event(), threading.Event()

    def ask_for_one_after_the_other() -> None:
        with client.connect() as kept:
            for number in itertools.count():
                if stop.is_set():
                    return
                response = kept.request("GET", target, headers=headers(number))
                statuses.add(status := response.status)
                if status == 429:
                    limited.set()
                    time.sleep(PAUSE_SECONDS)

    threads = [threading.Thread(target=ask_for_one_after_the_other) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    limited.wait()
    connection.send("limited")
    connection.recv()
    stop.set()
    for thread in threads:
        thread.join()
    return statuses
