"""Whoever an answer of the API server is for."""

from typing import Protocol

from proxy.wire.http1.message import ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import SimpleResponseHead


class ResponseHandler(Protocol):
    """Takes the answer, and hears of the upstream's pace and end."""

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Take the final head, and what has already come of the body."""
        ...

    def takes_chunks(self, status: int) -> bool:
        """Tell whether the body of such an answer may be told in the frames of its chunks."""
        ...

    def raw_response_started(
        self, head: SimpleResponseHead, payload: bytes, passed: RawChunkReader | None
    ) -> None:
        """Take the head of an answer in chunks, and what has already come of the body.

        That, and all of `response_data` after it, is in its frames if `passed` reads them.
        """
        ...

    def complete_response_received(self, head: SimpleResponseHead, payload: bytes) -> None:
        """Take a whole answer; nothing else comes."""
        ...

    def response_data(self, payload: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def response_ended(self) -> None:
        """Hear that the answer is complete."""
        ...

    def response_failed(self, *, nothing_came: bool) -> None:
        """Hear that the connection broke; `nothing_came` says not one byte of an answer did."""
        ...

    def pause_request(self) -> None:
        """Stop sending: the API server reads too slowly."""
        ...

    def resume_request(self) -> None:
        """Go on sending."""
        ...
