"""Every peer there is."""

from bench.contestants import Entry

PEERS: tuple[Entry, ...] = ()
