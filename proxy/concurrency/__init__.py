"""Concurrency primitives: task ownership, refresh loops, deadlines, rate limits, a circuit breaker.

They know nothing about the work they schedule, and make no authorization decision.
"""
