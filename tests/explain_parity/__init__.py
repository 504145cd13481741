"""Advice held against a real proxy: what explain and can-i say, and what really happens.

Requests come from the generator of the parity run, and from the audit log of the KEP's tests.
"""
