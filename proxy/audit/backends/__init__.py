"""Audit backends: where events are buffered and written."""
