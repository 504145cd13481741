"""The HTTP session that exports spans. It reads only the head of a collector's response.

`requests` is installed with the tracing packages, so this module is imported only with tracing on.
"""

from typing import Any

import requests


class CollectorSession(requests.Session):
    """Exports spans. Only the collector's status matters; its body could be endless.

    Proxies and credentials of the environment (`.netrc`) are not used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002 - an override
        """Return no target: the library reads the whole body of a redirect before it follows it."""
        return

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request, and return its response without a body."""
        response = super().send(request, **(options | {"stream": True}))
        response._content = b""  # noqa: SLF001 - otherwise a read would fetch the whole body
        response.close()
        return response
