"""Composition of the running proxy: build, start, reload and stop its components."""
