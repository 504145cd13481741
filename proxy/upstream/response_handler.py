"""The interface through which a connection passes on an upstream response."""

from typing import Protocol

from proxy.wire.http1.message import ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import SimpleResponseHead


class ResponseHandler(Protocol):
    """Receives the response of one exchange, and its flow control and end."""

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Handle the final head, and the part of the body received so far."""
        ...

    def accepts_raw_chunks(self, status: int) -> bool:
        """Return whether the body of such a response may be passed on with its chunk framing."""
        ...

    def raw_response_started(
        self, head: SimpleResponseHead, payload: bytes, passed: RawChunkReader | None
    ) -> None:
        """Handle the head of a chunked response, and the part of the body received so far.

        If `passed` is set, this part and all later `response_data` keep their chunk framing, which
        `passed` parses.
        """
        ...

    def complete_response_received(self, head: SimpleResponseHead, payload: bytes) -> None:
        """Handle a complete response; no other call follows."""
        ...

    def response_data(self, payload: bytes) -> None:
        """Handle the next part of the body."""
        ...

    def response_ended(self) -> None:
        """Handle the end of a complete response."""
        ...

    def response_failed(self, *, nothing_came: bool) -> None:
        """Handle a connection failure; `nothing_came`: before the first response byte."""
        ...

    def pause_request(self) -> None:
        """Stop sending the request body, because the API server reads too slowly."""
        ...

    def resume_request(self) -> None:
        """Continue sending the request body."""
        ...
