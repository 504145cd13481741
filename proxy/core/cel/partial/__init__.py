"""Partial evaluation: residual expressions over what is not yet known."""
