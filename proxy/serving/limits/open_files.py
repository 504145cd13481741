"""Open files: each connection is one, and the usual limit of a process is low.

The limit is raised as far as the system allows. If that does not suffice, fewer connections of
clients are accepted: then no descriptor is ever missing for accepting, for the admin port, for
reviews, and for reading credentials and certificates.
"""

import logging
import resource
from dataclasses import replace

from proxy.serving.limits.connections import ConnectionLimits
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Each client may have a connection of its own to the API server.
_FILES_PER_CONNECTION = 2
# Standard streams, the event loop, sockets that listen, log and audit files, files that are read,
# connections to audit receivers and collectors of spans, pipes to plugins.
_OTHER_FILES = 128


def fit_open_files(limits: ConnectionLimits, *, reserved: int) -> ConnectionLimits:
    """Raise the limit of open files to what is needed; return limits that fit what is allowed.

    `reserved` is how many files others need: the admin port and reviews.
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
    # One address keeps its share of the places, so that it cannot take all of them.
    share = limits.connections_per_address * fitting // limits.connections
    return replace(
        limits,
        connections=fitting,
        connections_per_address=min(limits.connections_per_address, max(share, 1)),
    )


def _raise_limit(needed: int) -> int:
    """Allow this process so many open files, if the system does; return how many it may open."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return needed
    if allowed >= needed:
        return allowed
    raised = needed if ceiling == resource.RLIM_INFINITY else min(needed, ceiling)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, ceiling))
    return raised
