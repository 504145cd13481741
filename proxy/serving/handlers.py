"""Who answers what connections read."""

from typing import Protocol, cast

from proxy.core.errors import StatusError, TooManyRequests
from proxy.serving.exchange import ServerExchange
from proxy.wire.exchange import ClientExchange


class RequestHandler(Protocol):
    """What a connection does with its requests."""

    def handle(self, exchange: ClientExchange) -> None:
        """Answer the exchange, now or later."""
        ...

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Answer a request that could not even be read."""
        ...


_RETRY_AFTER_SECONDS = 1


class CloseAfterResponse:
    """Serves a request as ever, and its answer says that the connection ends with it."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    def handle(self, exchange: ClientExchange) -> None:
        """Answer the exchange, and close after it."""
        _close_after(exchange)
        self._handler.handle(exchange)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Answer a request that could not even be read."""
        self._handler.reject(exchange, error)


class RejectWhileDraining(CloseAfterResponse):
    """Sends a request elsewhere: the client comes again, on a connection to whoever is there."""

    def handle(self, exchange: ClientExchange) -> None:
        """Refuse: it went nowhere, so that even a request that changes things may come again."""
        _close_after(exchange)
        self.reject(
            exchange,
            TooManyRequests(
                "the proxy is shutting down, please try again later",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            ),
        )


def _close_after(exchange: ClientExchange) -> None:
    cast("ServerExchange", exchange).closes = True  # connections make no other kind
