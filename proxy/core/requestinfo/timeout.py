"""The `timeout` a client may ask for: the API server reads it before it asks who is calling.

Only whether it can be read matters here; keeping to it is the API server's own affair.
"""

from typing import ClassVar

from proxy.core.errors import BadRequest
from proxy.core.gocompat.duration import parse_duration_error
from proxy.core.gocompat.url import first_values
from proxy.core.requestinfo.request_info import RequestInfo

_TIMEOUT = frozenset({"timeout"})


class InvalidTimeout(BadRequest):
    """The timeout cannot be read. Natively this 400 alone goes out without `nosniff`."""

    forbids_guessing: ClassVar[bool] = False


def check_timeout(request_info: RequestInfo, target: bytes) -> None:
    """Refuse a request whose timeout is no duration; what may last has no use for one."""
    query = target.partition(b"?")[2]
    if b"t" not in query or request_info.is_long_running:
        return
    value = first_values(query, _TIMEOUT).get("timeout", "")
    fault = parse_duration_error(value.encode("utf-8", "surrogateescape")) if value else None
    if fault is not None:
        raise InvalidTimeout(f"invalid timeout specified in the request URL - {fault}")
