"""The request path: every request is processed by `pipeline.py`, top to bottom."""
