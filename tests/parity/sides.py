"""The two sides of the comparison: a native server, or the proxy before one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from proxy.sandbox.api_server import ApiServer
from tests.parity.audit_tail import AuditTail
from tests.parity.scraping import Series, read_series
from tests.parity.webhook import Recording
from tests.parity.wire import ANSWER_SECONDS, Client, Credentials


@dataclass(frozen=True, slots=True)
class Side:
    """Where requests are sent, and where it can be seen what became of them."""

    name: str
    url: str
    audit: AuditTail
    """Who called, and what was decided."""
    behind: AuditTail | None
    """What arrived at the server behind a proxy. None: the side is a server itself."""
    recording: Recording | None
    """The reviews its authorizer was asked for, if that is the webhook."""
    series: Callable[[], Series]

    def client(self, credentials: Credentials) -> Client:
        """Return a connection for one caller."""
        return Client(self.url, credentials)


@contextmanager
def native_side(
    server: ApiServer, recording: Recording | None, admin: Credentials
) -> Iterator[Side]:
    """Look at a server as a side of its own."""
    # A busy server pauses in its page of tens of thousands of lines. One that was taken for a
    # stream would have no counts, which looks like counts that stood still.
    client = Client(server.url, admin, pause=ANSWER_SECONDS)
    yield Side(
        name=server.options.name,
        url=server.url,
        audit=AuditTail(server.audit_log),
        behind=None,
        recording=recording,
        series=lambda: read_series(client.fetch(b"/metrics")),
    )
    client.close()


def scrape(url: str) -> Series:
    """Return the series of a page that anybody may read."""
    with urlopen(url, timeout=30) as page:
        return read_series(page.read())
