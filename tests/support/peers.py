"""Programs that only the benchmark needs: `make bench-peers` fetches or builds them and tests them.

Nothing else does, because one of them takes minutes.
"""

import os

import pytest

IS_BUILDING_PEERS = bool(os.environ.get("UNDERSTUDY_PEERS"))
BUILD_SECONDS = 1200


def built(value: object) -> object:
    """Return a test's parameter that is a peer to build: skipped unless peers are to be built."""
    return pytest.param(
        value,
        marks=(
            pytest.mark.peers,
            pytest.mark.timeout(BUILD_SECONDS),
            pytest.mark.skipif(not IS_BUILDING_PEERS, reason="`make bench-peers` builds this one"),
        ),
        id=getattr(value, "name", None),
    )
