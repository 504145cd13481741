"""Conditional decisions in reviews and in the configuration of webhooks."""
