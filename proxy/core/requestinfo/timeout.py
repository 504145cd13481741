"""Validation of the `timeout` query parameter, which precedes authentication as in kube-apiserver.

Only its syntax matters here. The API server enforces the timeout itself.
"""

from typing import ClassVar

from proxy.core.errors import BadRequest
from proxy.core.gocompat.duration import parse_duration_error
from proxy.core.gocompat.url import QueryParameter, first_value
from proxy.core.requestinfo.request_info import RequestInfo

_TIMEOUT = QueryParameter("timeout")


class InvalidTimeout(BadRequest):
    """The timeout is invalid. kube-apiserver sends only this 400 without `nosniff`."""

    sends_nosniff: ClassVar[bool] = False


def check_timeout(request_info: RequestInfo, target: bytes) -> None:
    """Raise InvalidTimeout unless the timeout is a duration. Long-running requests ignore it."""
    query = target.partition(b"?")[2]
    if b"t" not in query or request_info.is_long_running:
        return
    value = first_value(query, _TIMEOUT)
    error = parse_duration_error(value.encode("utf-8", "surrogateescape")) if value else None
    if error is not None:
        raise InvalidTimeout(f"invalid timeout specified in the request URL - {error}")
