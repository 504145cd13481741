"""What a client may take, and what all of them share."""

import math
from dataclasses import dataclass
from typing import Self

from proxy.serving.doorkeeper import Doorkeeper
from proxy.serving.handshakes import HandshakeFailures
from proxy.serving.head_budget import HeadBudget
from proxy.wire.keepalive import UNREACHABLE_SECONDS


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a client may take to say what it wants, and stay, and how many there may be."""

    handshake_seconds: float = 10.0
    head_seconds: float = 32.0
    idle_seconds: float = 90.0
    unreachable_seconds: float = UNREACHABLE_SECONDS
    # After about this long a connection ends with the answer it is giving, or the next one.
    age_seconds: float = math.inf
    unread_head_bytes: int = 64 * 1024 * 1024
    connections: int = 10_000
    connections_per_address: int = 5_000


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """What every connection of one listener is held to, and what they share."""

    limits: ConnectionLimits
    heads: HeadBudget
    door: Doorkeeper
    failures: HandshakeFailures

    @classmethod
    def of(cls, limits: ConnectionLimits) -> Self:
        """Return the counters that hold these limits."""
        door = Doorkeeper(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        return cls(limits, HeadBudget(limits.unread_head_bytes), door, HandshakeFailures())
