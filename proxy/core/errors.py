"""Errors that a client can receive, with their status codes and reasons.

A status error is raised where it is detected. Only the pipeline turns one into a response.
"""

from collections.abc import Mapping
from typing import ClassVar


class StatusError(Exception):
    """An error response of the proxy itself: the request does not reach the API server."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    is_plain_text: ClassVar[bool] = False
    """Whether the body is plain text, as kube-apiserver's is for this error, and not a Status."""
    sends_nosniff: ClassVar[bool] = True
    """Whether the response has `X-Content-Type-Options: nosniff`."""
    upstream_code = 0
    """The code of the API server's response that this error replaces; 0 if there was none."""
    failed_check = ""
    """The access check that failed first, for the audit event."""
    warning = ""
    """The text of a Warning header, for a client that does not show the message; empty: none."""

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
    """A bug in the proxy. The message contains no internals."""


class AuditUnavailable(StatusError):
    """The audit event could not be stored, so the request is not carried out."""

    def __init__(self) -> None:
        super().__init__("failed to store audit event")


class RequestInfoError(StatusError):
    """kube-apiserver cannot parse the request info; it fails so before authentication."""

    is_plain_text: ClassVar[bool] = True


class BadRequest(StatusError):
    """The request is malformed, or of a kind that the proxy never forwards."""

    code: ClassVar[int] = 400
    reason: ClassVar[str] = "BadRequest"


class TargetTooLong(StatusError):
    """The request target exceeds the length limit."""

    code: ClassVar[int] = 414
    reason: ClassVar[str] = "RequestURITooLong"


class ReviewRejected(BadRequest):
    """No access review can be created for the request. Not evidence of an API server failure."""


class Unauthorized(StatusError):
    """Authentication failed. The message is kube-apiserver's and gives no hint."""

    code: ClassVar[int] = 401
    reason: ClassVar[str] = "Unauthorized"
    sends_nosniff: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class TokenTooLarge(StatusError):
    """The token exceeds the size that is reviewed.

    Not a 401: a client discards its token on 401 and retries with the same one.
    """

    code: ClassVar[int] = 431
    reason: ClassVar[str] = "RequestHeaderFieldsTooLarge"


class Forbidden(StatusError):
    """The authenticated caller lacks permission. Details name the denied resource."""

    code: ClassVar[int] = 403
    reason: ClassVar[str] = "Forbidden"


class TooManyRequests(StatusError):
    """A rate limit protects the proxy or the API server; the client may retry."""

    code: ClassVar[int] = 429
    reason: ClassVar[str] = "TooManyRequests"


class BadGateway(StatusError):
    """The connection broke after the API server may have acted, so a retry is never safe."""

    code: ClassVar[int] = 502
    reason: ClassVar[str] = "InternalError"


class UpstreamUnavailable(StatusError):
    """The request could not be sent to the API server, so it had no effect there."""

    code: ClassVar[int] = 503
    reason: ClassVar[str] = "ServiceUnavailable"


class ProxyCredentialRejected(UpstreamUnavailable):
    """The API server returned 401, possibly for the proxy's own credential. The client gets 503."""

    upstream_code = 401


class ProxyPermissionMissing(StatusError):
    """The API server denied the proxy's own identity the impersonation. The client gets 500.

    Its audit event has the API server's code, so that a join finds the denial in the cluster's log.
    """

    upstream_code = 403


class GatewayTimeout(StatusError):
    """The API server did not respond in time; it may still act."""

    code: ClassVar[int] = 504
    reason: ClassVar[str] = "Timeout"


class OperatorError(Exception):
    """An error that the operator can fix. The message is shown to the operator unchanged."""

    @property
    def lines(self) -> list[str]:
        """The lines to print, one for each fault."""
        return [str(self)]
