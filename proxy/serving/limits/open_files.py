"""The open-file limit of the process: each connection is one file, and the default is low.

The limit is raised as far as the system allows. If that is not enough, fewer client connections are
accepted. Descriptors then always remain for accepting, for the admin port, for reviews, and for
reading credentials and certificates.
"""

import logging
import resource
from dataclasses import replace

from proxy.serving.limits.connections import ConnectionLimits
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Each client may have a connection of its own to the API server.
_FILES_PER_CONNECTION = 2
# Standard streams, the event loop, listening sockets, log and audit files, files being read,
# connections to audit receivers and span collectors, pipes to plugins.
_OTHER_FILES = 128


def fit_open_files(limits: ConnectionLimits, *, reserved: int) -> ConnectionLimits:
    """Raise the open-file limit as needed; return connection limits that fit the result.

    `reserved` is the number of files that other components need: the admin port and reviews.
    """
    reserve = reserved + _OTHER_FILES
    needed = limits.connections * _FILES_PER_CONNECTION + reserve
    allowed = _raise_limit(needed)
    if allowed >= needed:
        return limits
    fitting = max((allowed - reserve) // _FILES_PER_CONNECTION, 1)
    log.warning(
        "client connections reduced",
        extra=fields(
            connections=fitting, wanted=limits.connections, open_files=allowed, needed=needed
        ),
    )
    # The limit per address is scaled as well, so one address cannot use all connections.
    share = limits.connections_per_address * fitting // limits.connections
    return replace(
        limits,
        connections=fitting,
        connections_per_address=min(limits.connections_per_address, max(share, 1)),
    )


def _raise_limit(needed: int) -> int:
    """Raise the soft limit to `needed` if the system allows it; return the resulting limit."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return needed
    if allowed >= needed:
        return allowed
    raised = needed if ceiling == resource.RLIM_INFINITY else min(needed, ceiling)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, ceiling))
    return raised
