"""One guard: what protects from a regression or a finding, and how it is taken away."""

from collections.abc import Callable
from dataclasses import dataclass

ANY_NUMBER = 10**9
"""A bound that nothing reaches."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What protects from one regression; `remove` holds for the rest of the process."""

    name: str
    remove: Callable[[], None]
    tests: tuple[str, ...] = ()
    """The tests of which one must fail; none are those named by the regression's number."""
