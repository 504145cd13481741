"""A caller that asks for what it is denied, as fast as it gets answers, from a process of its own.

In the process that measures others it would slow down the measuring itself.
"""

import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import KeyPair

CONNECTIONS = 4
# A client that heeds Retry-After would wait a second.
PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 60.0


@contextmanager
def flood(url: str, ca_pem: bytes, flooder: KeyPair, target: str) -> Iterator[set[int]]:
    """Flood for the time of the context, from when it is told to slow down.

    The set holds every status that was seen, once the context is left.
    """
    statuses: set[int] = set()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_flood, args=(theirs, url, ca_pem, flooder, target)
    )
    process.start()
    try:
        assert ours.poll(PATIENCE_SECONDS), "the flood was never told to slow down"
        ours.recv()
        yield statuses
        ours.send("stop")
        statuses |= ours.recv()
    finally:
        process.terminate()
        process.join()
        process.close()
        ours.close()
        theirs.close()


def _flood(connection: Connection, url: str, ca_pem: bytes, flooder: KeyPair, target: str) -> None:
    os.nice(19)  # a flooder has a machine of its own: here it must not take ours from the measured
    client = ApiClient(url, ca_pem=ca_pem, credential=flooder)
    statuses: set[int] = set()
    limited, stop = threading.Event(), threading.Event()

    def ask_for_one_after_the_other() -> None:
        with client.connect() as kept:
            for number in itertools.count():
                if stop.is_set():
                    return
                headers = [("Impersonate-User", f"somebody-{number}")]
                statuses.add(status := kept.request("GET", target, headers=headers).status)
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
    connection.send(statuses)
