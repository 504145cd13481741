"""Open files: every connection is one, and the usual limit of a process is far too low."""

import logging
import resource

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Each client may have a connection of its own to the API server; the rest is for everything else.
_FILES_PER_CONNECTION = 2
_OTHER_FILES = 256


def allow_open_files(connections: int) -> None:
    """Raise our own limit to what this many clients need, as far as the system lets us."""
    for_clients = connections * _FILES_PER_CONNECTION
    needed = for_clients + _OTHER_FILES
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed >= needed or allowed == resource.RLIM_INFINITY:
        return
    raised = needed if ceiling == resource.RLIM_INFINITY else min(needed, ceiling)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, ceiling))
    if raised < for_clients:
        log.warning("too few open files allowed", extra=fields(allowed=raised, needed=needed))
