"""Clients that ask the admin port in a loop, from a process of their own.

In the process that measures others they would slow down the measuring itself.
"""

import http.client
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

Address = tuple[str, int]


@contextmanager
def scraping(address: Address, *, scrapers: int, path: str = "/metrics") -> Iterator[None]:
    """Ask for a page again and again for the time of the context."""
    spawning = multiprocessing.get_context("spawn")
    started, stop = spawning.Event(), spawning.Event()
    process = spawning.Process(target=_scrape, args=(address, scrapers, path, started, stop))
    process.start()
    try:
        assert started.wait(30), "no page was ever served"
        yield
    finally:
        stop.set()
        process.join(10)
        process.terminate()
        process.join()
        process.close()


def _scrape(address: Address, scrapers: int, path: str, started: Event, stop: Event) -> None:
    os.nice(19)  # scrapers have machines of their own: here they must not take the measured one's

    def ask() -> None:
        while not stop.is_set():
            connection = http.client.HTTPConnection(*address, timeout=10)
            try:
                while not stop.is_set():
                    connection.request("GET", path)
                    connection.getresponse().read()
                    started.set()
            except OSError:
                pass  # turned away: it comes again, as a hostile one would
            except http.client.HTTPException:
                pass
            finally:
                connection.close()

    threads = [threading.Thread(target=ask) for _ in range(scrapers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
