"""Metrics of running proxies, read every second as Prometheus would, kept as series."""

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
    """Collects while it is the context of somebody who does something."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        """`pages` are URLs of metrics by the name of the replica."""
        self._pages = pages
        self._samples: dict[_Key, list[tuple[float, float]]] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._collect)

    def __enter__(self) -> "Recording":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def series(self) -> list[Series]:
        """All that was collected so far."""
        with self._lock:
            return [Series(dict(key), tuple(kept)) for key, kept in self._samples.items()]

    def _collect(self) -> None:
        while not self._is_over.wait(_SCRAPE_SECONDS):
            for instance, url in self._pages.items():
                try:
                    with urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
                        self._keep(instance, answer.read().decode())
                except (OSError, HTTPException):
                    continue  # a scrape that fails leaves a gap, as in Prometheus

    def _keep(self, instance: str, page: str) -> None:
        # The wall clock, in milliseconds: samples are compared with ends of certificates.
        now = time.time_ns() // 1_000_000 / 1000
        samples = [
            sample for family in text_string_to_metric_families(page) for sample in family.samples
        ]
        with self._lock:
            for sample in samples:
                labels = {**sample.labels, "__name__": sample.name, "instance": instance}
                key = tuple(sorted({**labels, "job": JOB}.items()))
                self._samples.setdefault(key, []).append((now, sample.value))
