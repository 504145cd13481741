"""Floods against a proxy that runs as a process of its own, at its default limits."""
