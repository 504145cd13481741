"""Fresh names: a plan is written with placeholders, and each time it is played they mean new ones.

Servers remember callers, so a request can only be repeated in the same circumstances by somebody
the servers have never seen.
"""

import itertools
import secrets
from dataclasses import dataclass

FRESH = "fresh0000"
"""Stands in every name that must be new. As long as what replaces it, and valid wherever it is."""

TOKEN_USER = f"tokenuser-{FRESH}"
"""The caller known by a static token. The API server reads those once, so there is a stock."""

_numbers = itertools.count()
_run = secrets.token_hex(2)


def fresh_suffix() -> str:
    """Return a text that nothing else on this machine contains, as long as `FRESH`."""
    return f"x{_run}{next(_numbers):04x}"


@dataclass(frozen=True, slots=True)
class Renaming:
    """What the placeholders stand for this time."""

    suffix: str
    token_user: str

    def realise(self, text: str) -> str:
        """Put this time's names into a text of the plan."""
        return text.replace(TOKEN_USER, self.token_user).replace(FRESH, self.suffix)

    def realise_bytes(self, text: bytes) -> bytes:
        """Put this time's names into bytes of the plan."""
        return text.replace(TOKEN_USER.encode(), self.token_user.encode()).replace(
            FRESH.encode(), self.suffix.encode()
        )

    def forget(self, text: str) -> str:
        """Put the placeholders back, so that texts of different times compare equal."""
        return text.replace(self.token_user, TOKEN_USER).replace(self.suffix, FRESH)
