"""Decisions as pure functions: no sockets, no clock, no files, no logs.

Inputs are plain values. Results are frozen values, or a StatusError is raised.
"""
