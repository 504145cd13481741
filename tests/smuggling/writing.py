"""How the tables write their cases."""

from tests.smuggling.cases import Case, Fate
from tests.smuggling.generator import SMUGGLED


def post(lines: bytes, body: bytes = b"", *, first: bytes = b"POST /api/v1/pods HTTP/1.1") -> bytes:
    """Return a request with these lines in its head."""
    return b"%b\r\nHost: a\r\n%b\r\n%b" % (first, lines, body)


def refused(name: str, wire: bytes) -> Case:
    """Bytes that end the connection, so that the request behind them is never read."""
    return Case(name, wire + SMUGGLED, Fate.REFUSED)


def served(name: str, wire: bytes, count: int = 1) -> Case:
    """Sound bytes with another request behind them, which is one of those that are served."""
    return Case(name, wire + SMUGGLED, Fate.SERVED, count + 1)
