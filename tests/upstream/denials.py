"""Who tells denials about us from others, without anybody to tell about."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from proxy.core.userinfo import Identity
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import OwnDenials
from tests.support.clock import FakeClock


class NothingMissing:
    """Confirms no denial."""

    def confirm(self, identity: Identity, name: str, tell: Callable[[bool], None]) -> None:
        """Tell that every right is there."""
        tell(False)  # noqa: FBT003 - an answer


def no_denials() -> OwnDenials:
    return OwnDenials(
        NothingMissing(), counter=UpstreamMetrics(CollectorRegistry()), clock=FakeClock()
    )
