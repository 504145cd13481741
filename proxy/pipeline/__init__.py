"""The request path: every request passes `pipeline.py` from top to bottom."""
