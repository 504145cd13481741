"""Who tells denials about us from others, without anybody to tell about."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from proxy.core.userinfo import UserInfo
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.auth_errors import ProxyDenialDetector
from tests.support.clock import FakeClock


class NothingMissing:
    """Confirms no denial."""

    def confirm(self, user: UserInfo, name: str, tell: Callable[[bool], None]) -> None:
        """Tell that every right is there."""
        tell(False)  # noqa: FBT003 - an answer


def no_denials() -> ProxyDenialDetector:
    return ProxyDenialDetector(
        NothingMissing(), counter=UpstreamMetrics(CollectorRegistry()), clock=FakeClock()
    )
