"""Client side of the data path: connections, their limits, and shutdown.

It handles bytes and time. It makes no authorization decision.
"""
