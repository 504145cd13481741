"""Every decision, as pure functions: no sockets, no clock, no files, no logs.

Whatever arrives here is plain values; whatever leaves is a frozen value or a Refusal.
"""
