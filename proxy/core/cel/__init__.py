"""The Common Expression Language of the Kubernetes 1.37 environment, over plain JSON values.

An expression is compiled once into closures and evaluated with a counted cost. Nothing here does
I/O or reads a clock: the outcome depends on the given values alone.
"""
