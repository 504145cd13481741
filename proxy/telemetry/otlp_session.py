"""The HTTP session that spans are sent with: nothing of a collector's answer but its head is read.

`requests` comes with the packages of tracing, so this is imported only where spans are wanted.
"""

from typing import Any

import requests


class CollectorSession(requests.Session):
    """Sends spans; a collector's status counts, and its body could be without end.

    Proxies and credentials of the environment (`.netrc`) are not used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002 - an override
        """Return no target: the library reads the whole body of a redirect before it follows it."""
        return

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request, and return its answer without a body."""
        response = super().send(request, **(options | {"stream": True}))
        response._content = b""  # noqa: SLF001 - or reading it would fetch all of it
        response.close()
        return response
