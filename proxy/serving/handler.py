"""Who answers what connections read."""

from typing import Protocol

from proxy.core.errors import Refusal
from proxy.wire.exchange import ClientExchange


class RequestHandler(Protocol):
    """What a connection does with its requests."""

    def begin(self, exchange: ClientExchange) -> None:
        """Answer the exchange, now or later."""
        ...

    def refuse(self, exchange: ClientExchange, refusal: Refusal) -> None:
        """Answer a request that could not even be read."""
        ...
