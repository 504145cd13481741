"""Every refusal a client can be told about, with its code and reason.

A refusal is raised wherever it is found out and becomes a response in `pipeline.py` only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

NO_DETAILS: Mapping[str, str] = MappingProxyType({})


class StatusError(Exception):
    """A request is answered by us, with a Status, and does not reach the API server."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    is_plain_text: ClassVar[bool] = False
    """The API server says this in text, not in a Status."""
    forbids_guessing: ClassVar[bool] = True
    """The answer carries `nosniff`."""
    upstream_code = 0
    """What the API server had answered, if it had: the client is told something else."""
    failed_check = ""
    """The access check that failed first, for the audit event."""

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, str] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds


class InternalError(StatusError):
    """A bug of ours, told without its insides."""


class AuditUnavailable(StatusError):
    """What the request does could not be written down, so it is not done."""

    def __init__(self) -> None:
        super().__init__("failed to store audit event")


class RequestInfoError(StatusError):
    """The API server cannot tell what the request does, and says so before it asks who calls."""

    is_plain_text: ClassVar[bool] = True


class BadRequest(StatusError):
    """The request itself is malformed or asks for something we never forward."""

    code: ClassVar[int] = 400
    reason: ClassVar[str] = "BadRequest"


class TargetTooLong(StatusError):
    """The request target is longer than any that is read."""

    code: ClassVar[int] = 414
    reason: ClassVar[str] = "RequestURITooLong"


class ReviewRejected(BadRequest):
    """No access review of the request can be made; this says nothing about the API server."""


class Unauthorized(StatusError):
    """Nobody was authenticated. The text is the API server's: one word, no hint."""

    code: ClassVar[int] = 401
    reason: ClassVar[str] = "Unauthorized"
    forbids_guessing: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class TokenTooLarge(StatusError):
    """The token is larger than any that is reviewed.

    Not a 401: clients throw their token away on one, and try again with the same.
    """

    code: ClassVar[int] = 431
    reason: ClassVar[str] = "RequestHeaderFieldsTooLarge"


class Forbidden(StatusError):
    """The caller is known and may not do this. Details name the resource that was denied."""

    code: ClassVar[int] = 403
    reason: ClassVar[str] = "Forbidden"


class TooManyRequests(StatusError):
    """We protect ourselves or the API server; the client may come again."""

    code: ClassVar[int] = 429
    reason: ClassVar[str] = "TooManyRequests"


class BadGateway(StatusError):
    """The API server broke off after it may have acted: never safe to repeat for the client."""

    code: ClassVar[int] = 502
    reason: ClassVar[str] = "InternalError"


class UpstreamUnavailable(StatusError):
    """The API server could not be asked at all, so nothing happened there."""

    code: ClassVar[int] = 503
    reason: ClassVar[str] = "ServiceUnavailable"


class ProxyCredentialRejected(UpstreamUnavailable):
    """The API server answered 401, perhaps about us and not about the client, who is told a 503."""

    upstream_code = 401


class GatewayTimeout(StatusError):
    """The API server did not answer in time; it may still act."""

    code: ClassVar[int] = 504
    reason: ClassVar[str] = "Timeout"


class OperatorError(Exception):
    """Something that whoever runs us can mend; the message is meant for a person as it stands."""

    @property
    def lines(self) -> list[str]:
        """What to tell, a line for each thing that is wrong."""
        return [str(self)]
