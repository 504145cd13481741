"""Prometheus metrics by component."""
