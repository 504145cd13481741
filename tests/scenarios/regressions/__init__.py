"""What went wrong in proxies like ours, numbered; `docs/protocol.md` lists them.

Each must fail when its guard is taken away: `make mutants` does that, one after the other.
"""
