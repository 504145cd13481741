"""What a client may take, and what all of them share."""

import math
import time
from dataclasses import dataclass, replace
from typing import Self

from proxy.core.action import DEFAULT_TARGET_BYTES
from proxy.serving.doorkeeper import Doorkeeper
from proxy.serving.handshake_turns import HandshakeTurns
from proxy.serving.handshakes import HandshakeFailures
from proxy.serving.unauthenticated_budget import UnauthenticatedBudget
from proxy.wire.keepalive import UNREACHABLE_SECONDS
from proxy.wire.server_tls import MOST_HANDSHAKE_BYTES


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a client may take to say what it wants, and stay, and how many there may be."""

    handshake_seconds: float = 10.0
    handshake_bytes: int = MOST_HANDSHAKE_BYTES
    head_seconds: float = 32.0
    idle_seconds: float = 90.0
    # The same before a connection has had an authenticated request.
    unauthenticated_idle_seconds: float = 10.0
    # In this time the client must take 64 KiB of an ordinary response, or all that is pending.
    response_progress_seconds: float = 60.0
    unreachable_seconds: float = UNREACHABLE_SECONDS
    # After about this long a connection ends with the answer it is giving, or the next one.
    age_seconds: float = math.inf
    header_lines: int = 1200
    header_line_bytes: int = 128 * 1024
    target_bytes: int = DEFAULT_TARGET_BYTES
    connections: int = 10_000
    connections_per_address: int = 5_000
    # Of each turn of the event loop, for handshakes.
    handshake_slice_seconds: float = 0.002


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """What every connection of one listener is held to, and what they share."""

    limits: ConnectionLimits
    budget: UnauthenticatedBudget
    door: Doorkeeper
    failures: HandshakeFailures
    turns: HandshakeTurns

    @classmethod
    def of(cls, limits: ConnectionLimits, budget: UnauthenticatedBudget) -> Self:
        """Return the counters that hold these limits."""
        door = Doorkeeper(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        turns = HandshakeTurns(limits.handshake_slice_seconds, time.monotonic)
        return cls(limits, budget, door, HandshakeFailures(), turns)

    def held_to(self, limits: ConnectionLimits) -> "SharedLimits":
        """Return other limits for the same clients: the counters go on, and hold these."""
        self.door.limit(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        self.turns.limit(limits.handshake_slice_seconds)
        return replace(self, limits=limits)
