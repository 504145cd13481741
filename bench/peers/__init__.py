"""Alternatives to this proxy: real programs as released, configured for the benchmark.

Each module has one of them: how to get it, how to start it, and what it does not do. None is built
or fetched before it is started.
"""
