"""The listening side: client connections, their limits and their end.

Knows bytes and time, never who may do what.
"""
