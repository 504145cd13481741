"""The four native metrics of impersonation, read from a server's own page."""

import re
from collections import Counter

# How often, not how long: durations differ between servers, the number of them must not.
_PREFIX = b"apiserver_impersonation_"
_COUNTS = re.compile(r"\w+_attempts_(?:total|duration_seconds_count)\{.*\}")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Series = Counter[str]


def read_series(page: bytes) -> Series:
    """Return the counts by series, labels in alphabetical order."""
    counts: Series = Counter()
    # A native page has tens of thousands of lines, and these are a handful.
    for line in page.splitlines():
        if line.startswith(_PREFIX):
            series, _, value = line.decode().rpartition(" ")
            if _COUNTS.fullmatch(series):
                counts[_in_order(series)] = int(float(value))
    return counts


def growth(before: Series, after: Series) -> Series:
    """Return what was counted between two readings, without what stood still."""
    return Counter(
        {name: after[name] - before[name] for name in after if after[name] != before[name]}
    )


def _in_order(series: str) -> str:
    name, _, labels = series.partition("{")
    pairs = ",".join(f'{key}="{value}"' for key, value in sorted(_LABEL.findall(labels)))
    return f"{name}{{{pairs}}}"
