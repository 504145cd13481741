"""Explanations of impersonation decisions."""
