"""Recorded metrics of running proxies, scraped every second as by Prometheus."""

import threading
import time
from collections.abc import Mapping
from http.client import HTTPException
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from bench.dashboard.programs import Series

JOB = "understudy"
_SCRAPE_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_Key = tuple[tuple[str, str], ...]


class Recording:
    """Scrapes metrics for the duration of the context."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        """`pages` are the metrics URLs by replica name."""
        self._pages = pages
        self._samples: dict[_Key, list[tuple[float, float]]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._collect)

    def __enter__(self) -> "Recording":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def series(self) -> list[Series]:
        """Return all series collected so far."""
        with self._lock:
            return [Series(dict(key), tuple(kept)) for key, kept in self._samples.items()]

    def _collect(self) -> None:
        while not self._stopped.wait(_SCRAPE_SECONDS):
            for instance, url in self._pages.items():
                try:
                    with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
                        self._keep(instance, response.read().decode())
                except (OSError, HTTPException):
                    continue  # a failed scrape leaves a gap, as in Prometheus

    def _keep(self, instance: str, page: str) -> None:
        # The wall clock, in milliseconds: samples are compared with certificate expiries.
        now = time.time_ns() // 1_000_000 / 1000
        samples = [
            sample for family in text_string_to_metric_families(page) for sample in family.samples
        ]
        with self._lock:
            for sample in samples:
                labels = {**sample.labels, "__name__": sample.name, "instance": instance}
                key = tuple(sorted({**labels, "job": JOB}.items()))
                self._samples.setdefault(key, []).append((now, sample.value))
