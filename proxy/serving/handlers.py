"""Request handlers of connections: the interface, and the handlers used while draining."""

from typing import Protocol, cast

from proxy.core.errors import StatusError, TooManyRequests
from proxy.serving.exchange import ServerExchange
from proxy.wire.exchange import ClientExchange


class RequestHandler(Protocol):
    """Handles the requests of a connection."""

    def handle(self, exchange: ClientExchange) -> None:
        """Respond to the exchange, now or later."""
        ...

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Respond to a request that could not be parsed."""
        ...


_RETRY_AFTER_SECONDS = 1


class CloseAfterResponse:
    """Serves requests as usual; each response announces that the connection closes."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    def handle(self, exchange: ClientExchange) -> None:
        """Respond to the exchange, and close the connection afterwards."""
        _close_after(exchange)
        self._handler.handle(exchange)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        """Respond to a request that could not be parsed."""
        self._handler.reject(exchange, error)


class RejectWhileDraining(CloseAfterResponse):
    """Rejects requests, so that clients retry on a connection to another instance."""

    def handle(self, exchange: ClientExchange) -> None:
        """Reject the request; it was not forwarded, so even a mutation can be repeated."""
        _close_after(exchange)
        self.reject(
            exchange,
            TooManyRequests(
                "the proxy is shutting down, please try again later",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            ),
        )


def _close_after(exchange: ClientExchange) -> None:
    cast("ServerExchange", exchange).closes_connection = True  # connections create no other class
