"""Who the hop is to the proxy: nobody."""

from collections.abc import Callable

from proxy.core.errors import Refusal
from proxy.upstream.endpoints import Endpoint
from proxy.upstream.own_denials import DeniedRequest
from proxy.upstream.standing import Standing


class Nobody:
    """The place of a credential, empty for good."""

    authorization: bytes | None = None
    version = 0

    @property
    def denials(self) -> "Nobody":
        """Tell which denials are about us: none."""
        return self

    def is_own(self, _name: str) -> bool:
        """Return that no name is ours."""
        return False

    def judge(
        self,
        _media_type: str,
        _body: bytes,
        _request: DeniedRequest,
        tell: Callable[[Refusal | None], None],
    ) -> None:
        """Let every denial pass."""
        tell(None)

    def ask(self, _endpoint: Endpoint, _version: int, tell: Callable[[Standing], None]) -> None:
        """Tell that nothing is wrong with us: a 401 is about the application, which is to see it.

        Its token may have expired, and only if it hears so it takes the next one.
        """
        tell(Standing.ACCEPTED)
