"""How our credential stands at an API server, and who knows."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from proxy.core.errors import Refusal
from proxy.upstream.endpoints import Endpoint
from proxy.upstream.own_denials import DeniedRequest


class Standing(Enum):
    """What an API server thinks of our credential."""

    ACCEPTED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


class Denials(Protocol):
    """Tells denials about us from denials about whom we speak for."""

    def is_own(self, name: str) -> bool:
        """Return whether we forward under this name."""
        ...

    def judge(
        self,
        media_type: str,
        body: bytes,
        request: DeniedRequest,
        tell: Callable[[Refusal | None], None],
    ) -> None:
        """Tell what a client is told in place of a denial about us; None if it is its own."""
        ...


class CredentialStanding(Protocol):
    """Finds out how our credential stands, and which denials are about us."""

    @property
    def denials(self) -> Denials:
        """Return who tells denials about us from others."""
        ...

    def ask(self, endpoint: Endpoint, version: int, tell: Callable[[Standing], None]) -> None:
        """Tell how an endpoint takes a version of our credential, now or later."""
        ...
