"""The interface through which a connection passes on an upstream response."""

from typing import Protocol

from proxy.wire.http1.body import BodyFraming
from proxy.wire.http1.message import ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader


class ResponseHandler(Protocol):
    """Receives the response of one exchange, and its flow control and end."""

    def response_started(
        self,
        head: ResponseHead,
        framing: BodyFraming | RawChunkReader,
        payload: bytes,
        *,
        is_complete: bool,
    ) -> None:
        """Handle the final head, and the part of the body received so far.

        With a `RawChunkReader` this part and all later ones come in the frames that it has checked.
        If the response is complete, no other call follows, and its connection is already released.
        """
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
