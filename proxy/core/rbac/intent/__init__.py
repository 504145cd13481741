"""Intents: a description of wanted impersonation, and the decisions it expects."""
