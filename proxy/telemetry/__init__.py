"""Metrics, logs and traces. None of them contains a secret."""
