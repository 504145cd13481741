"""Metrics and logs. Takes facts, never secrets."""
