"""Which extras of an identity go upstream: some API servers refuse keys that others issue."""

from dataclasses import dataclass, replace

from proxy.core.errors import Forbidden
from proxy.core.identity import Identity


@dataclass(frozen=True, slots=True)
class ExtraPolicy:
    """Keys that stay here, and keys with which nobody goes on. All others are forwarded.

    It speaks of what is forwarded only: whoever is asked about a caller or a wanted identity is
    shown all of its extras.
    """

    dropped: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def carried(self, identity: Identity) -> Identity:
        """Return the identity as it goes upstream, or refuse it."""
        keys = {key for key, _ in identity.extra}
        for key in sorted(keys & self.refused):
            raise Forbidden(f"an identity with the extra {key} is not forwarded to this API server")
        if keys.isdisjoint(self.dropped):
            return identity
        kept = tuple(pair for pair in identity.extra if pair[0] not in self.dropped)
        return replace(identity, extra=kept)
