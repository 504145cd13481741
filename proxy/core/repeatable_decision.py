"""A decision that may be made again without its plan: what it came out as, and on what it rests."""

from typing import NamedTuple

from proxy.core.admission import Admission, Guards


class RepeatableDecision(NamedTuple):
    """A decision that comes out the same for an equal request, as long as memory holds its key.

    It permits nothing by itself. The key of one who acts as itself is empty: nothing was asked.
    """

    key: bytes
    guards: Guards
    admission: Admission
