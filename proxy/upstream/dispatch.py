"""An admitted request on its way, and who knows how we stand where it goes."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from proxy.core.admission import Admission
from proxy.core.errors import Refusal
from proxy.upstream.endpoints import Endpoint
from proxy.upstream.standing import Standing
from proxy.wire.exchange import ClientExchange


class Dispatch(NamedTuple):
    """An admitted request on its way: whose it is, and what becomes of it if it fails."""

    client: ClientExchange
    admission: Admission
    audit_id: bytes
    is_long_running: bool
    refuse: Callable[[Refusal], None]
    head: bytes
    version: int
    """The version of our credential that is in the head."""


class Denials(Protocol):
    """Tells denials about us from denials about whom we speak for."""

    def refusal(self, media_type: str, body: bytes) -> Refusal | None:
        """Return what a client is told in place of a denial about us; None if it is its own."""
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
