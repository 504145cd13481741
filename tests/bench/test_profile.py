"""A profile tells whose code ran."""

import pytest

from bench.profile import parts

REPORT = """
# Samples: 3K of event 'cpu-clock:pppH'
    45.10%  libpython3.11.so.1.0
    30.00%  [kernel.kallsyms]
     8.00%  libc.so.6
     6.00%  libcrypto.so.3
     4.00%  _rust.abi3.so
     1.00%  [vdso]
     0.50%  something.so
"""


def test_libraries_are_added_up_by_what_they_are_for() -> None:
    assert parts(REPORT) == {
        "interpreter": 45.1,
        "kernel": 31,
        "TLS (OpenSSL)": pytest.approx(10),
        "C library": 8,
        "other: something.so": 0.5,
    }


def test_the_largest_part_comes_first() -> None:
    assert list(parts(REPORT))[:2] == ["interpreter", "kernel"]
